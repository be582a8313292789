"""``rbx sweep`` by a running classifier: asked when the sweep is planned, and part of what its cells are."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.serve.classifier.service import Service, refusal, running
from tests.workplace import Workplace

CATEGORIES = ("math", "law", "other")


def category(text: str) -> tuple[str, float]:
    number = zlib.crc32(text.encode())
    return CATEGORIES[number % 3], 0.4 + (number % 61) / 100


@pytest.fixture
def service() -> Iterator[Service]:
    with running(category) as found:
        yield found


def sweep(workplace: Workplace, out: Path, policies: list[dict[str, Any]], code: int = 0) -> Any:
    done = workplace.rbx(
        "sweep", "tiny.yaml", "--out", str(out), "--json", "--jobs", "1", "--set", "workload.seeds=[0]",
        "--set", "workload.rates_per_s=[8.0]", "--set", f"policies={json.dumps(policies)}", code=code,
    )  # fmt: skip
    return json.loads(done.stdout) if code == 0 else done.stderr


def models_by_prompt(out: Path, label: str) -> dict[str, str]:
    (cell,) = [c for c in json.loads((out / "manifest.json").read_text())["cells"] if c["label"] == label]
    records = pq.read_table(out / "cells" / f"{cell['cell_id']}.parquet").to_pydict()
    return dict(zip(records["prompt_id"], records["model"], strict=True))


def test_prompts_go_where_their_category_says_and_cells_follow_the_answers(
    workplace: Workplace, service: Service, tmp_path: Path
) -> None:
    prompts = pq.read_table(workplace.folder / "datasets/tiny/prompts.parquet").to_pylist()
    text_of = {row["prompt_id"]: row["prompt"] for row in prompts}
    policies = [
        {
            "kind": "vllm-sr",
            "url": service.url,
            "threshold": [None, 0.7],
            "dispatch": ["shortest-queue", "random"],
        }
    ]
    assert sweep(workplace, tmp_path, policies)["ran"] == 4
    asked = [text for each in service.asked for text in each["texts"]]
    n_test = sum(row["split"] == "test" for row in prompts)
    assert len(asked) == len(set(asked)) == len(prompts) >= n_test + 100  # each once, training prompts too

    noted = json.loads((tmp_path / "manifest.json").read_text())["classifiers"]
    table, default = noted["vllm-sr"]["table"], noted["vllm-sr"]["default"]
    assert set(table) == set(CATEGORIES)
    assert noted["vllm-sr"]["sent_to_default"] == {}
    chosen = models_by_prompt(tmp_path, "vllm-sr/shortest-queue")
    assert chosen == {prompt: table[category(text_of[prompt])[0]] for prompt in chosen}
    unsure = {prompt for prompt in chosen if category(text_of[prompt])[1] < 0.7}
    wary = models_by_prompt(tmp_path, "vllm-sr t0.7/random")
    assert {wary[prompt] for prompt in unsure} == {default}
    assert sum(noted["vllm-sr t0.7"]["sent_to_default"].values()) >= len(unsure) > 10

    assert sweep(workplace, tmp_path, policies)["resumed"] == 4
    service.category = lambda text: ("law", 0.9)
    assert sweep(workplace, tmp_path, policies)["ran"] == 4


def test_a_service_without_an_answer_stops_the_plan_and_nothing_is_assumed(
    workplace: Workplace, service: Service, tmp_path: Path
) -> None:
    named = {"kind": "vllm-sr", "url": service.url, "models": {"math": "Qwen2.5-3B"}}
    service.answer = lambda texts: refusal(503, "UNIFIED_CLASSIFIER_UNAVAILABLE", "models are loading")
    said = sweep(workplace, tmp_path / "a", [named], code=1)
    assert "HTTP 503: models are loading" in " ".join(said.split())
    assert not (tmp_path / "a").exists()
    service.answer = None
    warned = workplace.rbx(
        "sweep", "tiny.yaml", "--out", str(tmp_path / "b"), "--set", "workload.rates_per_s=[8.0]",
        "--set", f"policies={json.dumps([named])}",
    ).stderr  # fmt: skip
    assert "warning: vllm-sr: the default model Qwen2.5-72B answers" in " ".join(warned.split())
