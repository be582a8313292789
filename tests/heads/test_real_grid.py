"""The heads on real prompts and answers: figures near those measured before this code existed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from rbx.heads.embedding_cache import encode_cached
from rbx.heads.encoder import load_encoder
from rbx.heads.evaluation import report_models, routed_quality
from rbx.heads.knn import KnnHead, Labels

pytestmark = pytest.mark.shared

MODELS = tuple(f"Qwen2.5-{size}-Instruct" for size in ("3B", "7B", "32B", "72B"))


class Grid(NamedTuple):
    prompts: list[str]
    score: NDArray[np.float64]
    length: NDArray[np.float64]


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


@pytest.fixture(scope="module")
def grid(request: pytest.FixtureRequest) -> Grid:
    folder = request.getfixturevalue("shared_data") / "zeroeval_qwen25"
    prompts = {row["prompt_id"]: row["prompt"] for row in lines(folder / "prompts.jsonl.gz")}
    position = {prompt_id: index for index, prompt_id in enumerate(prompts)}
    score, length = (np.full((len(prompts), len(MODELS)), np.nan) for _ in range(2))
    for row in lines(folder / "grid.jsonl.gz"):
        at = position[row["prompt_id"]], MODELS.index(row["model"])
        score[at], length[at] = row["score"], row["output_tokens_qwen"]
    assert not np.isnan(score).any()
    return Grid(list(prompts.values()), score, length)


@pytest.mark.parametrize("name", ["static", "minilm"])
def test_figures_are_those_of_the_earlier_measurement(
    name: str, grid: Grid, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    """Means of ten random 80/20 splits at k = 10: AUC about .64, R² about .45, routed quality about .65."""
    assert pytestconfig.cache is not None
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytestconfig.cache.mkdir("embeddings")))  # a minute of MiniLM
    embeddings = encode_cached(load_encoder(name), grid.prompts)
    figures = []
    for seed in range(10):
        shuffled = np.random.default_rng(seed).permutation(len(grid.prompts))
        test, train = np.split(shuffled, [len(shuffled) // 5])
        head = KnnHead(embeddings[train], Labels(MODELS, grid.score[train], grid.length[train]), k=10)
        predicted = head.predict(embeddings[test])
        models = report_models(predicted, grid.score[test], grid.length[test])
        figures.append(
            (
                np.mean([model.quality_auc or np.nan for model in models]),
                np.mean([model.log_length_r2 or np.nan for model in models]),
                np.mean([model.length_calibration_error or np.nan for model in models]),
                routed_quality(predicted, grid.score[test]).mean(),
            )
        )
    auc, r2, calibration, routed = np.mean(figures, axis=0)
    assert 0.61 < auc < 0.68
    assert 0.42 < r2 < 0.54
    assert calibration < 0.04
    assert 0.63 < routed < 0.68
