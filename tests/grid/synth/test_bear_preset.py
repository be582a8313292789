"""The four task shapes: published mean scores, plausible lengths, scores that a text tells partly."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rbx.grid.manifest import read_manifest
from rbx.grid.schema import GridView
from rbx.grid.store import open_view
from rbx.grid.synth.bear_preset import BEAR, MODELS, PUBLISHED_MEAN
from rbx.grid.synth.calibration import calibration
from rbx.grid.synth.family import N_TOPICS
from rbx.grid.synth.latent import draw_lengths, draw_scores
from rbx.grid.synth.prompts import Drawn
from tests.grid.building import build

TASKS = ("alpaca", "hotpotqa", "govreport", "writingprompts")


@pytest.fixture(scope="module")
def bear(tmp_path_factory: pytest.TempPathFactory) -> GridView:
    folder = tmp_path_factory.mktemp("bear") / "grid"
    build({"kind": "synth", "preset": "bear"}, folder)
    return open_view(folder)


def of_task(view: GridView, task: str) -> NDArray[np.bool_]:
    return np.array([source == f"synthetic/{task}" for source in view.sources])


def cells_only(n: int) -> Drawn:
    """Prompts without text: the model looks at families and topics alone."""
    topic = np.random.default_rng(1).integers(0, N_TOPICS, n)
    return Drawn([""] * n, np.zeros(n, dtype=np.bool_), np.arange(n) % 4, topic)


def test_the_constants_meet_the_published_means() -> None:
    drawn = cells_only(100_000)
    score = draw_scores(drawn, BEAR.scores, np.random.default_rng(2))
    for family, task in enumerate(TASKS):
        mean = score[drawn.family == family].mean(axis=0)
        np.testing.assert_allclose(mean, PUBLISHED_MEAN[task], atol=0.003)
    # As published over all four: 35.3, 78.8 and 89.5 %.
    np.testing.assert_allclose(score.mean(axis=0), [0.353, 0.788, 0.895], atol=0.002)
    assert set(np.unique(np.rint(10 * score))) == set(range(11))


def test_a_grid_has_800_prompts_of_each_task_and_the_published_means(bear: GridView) -> None:
    assert bear.models == MODELS
    assert [int(of_task(bear, task).sum()) for task in TASKS] == [800] * 4
    targets = calibration(bear)
    assert len(targets) == 15
    for target in targets:
        # Scores spread by 0.3 at most, but their latent parts have mean 0 in the grid.
        assert target.achieved == pytest.approx(target.published, abs=0.01), target.name


def test_the_targets_are_recomputed_by_hand(bear: GridView) -> None:
    achieved = {target.name: target.achieved for target in calibration(bear, "test")}
    rows = [r for r in range(3200) if not bear.is_train[r] and bear.sources[r] == "synthetic/govreport"]
    by_hand = sum(bear.score[row, 1] for row in rows) / len(rows)
    assert achieved["mean score, govreport, Qwen3-8B"] == pytest.approx(by_hand)


def test_prompts_and_answers_have_the_four_shapes(bear: GridView) -> None:
    prompt = {task: bear.input_tokens[of_task(bear, task)] for task in TASKS}
    answer = {task: bear.output_tokens[of_task(bear, task)].mean() for task in TASKS}
    assert np.median(prompt["alpaca"]) < 60
    assert np.median(prompt["writingprompts"]) < 80
    assert np.median(prompt["hotpotqa"]) == pytest.approx(1_300, rel=0.05)
    assert np.median(prompt["govreport"]) == pytest.approx(8_400, rel=0.05)
    assert min(tokens.min() for tokens in prompt.values()) >= 10
    assert bear.input_tokens.max() <= 10_000
    assert 100 < answer["hotpotqa"] < answer["alpaca"] < 400
    assert 600 < answer["govreport"] < answer["writingprompts"] < 1_300
    for text, tokens in zip(bear.prompts, bear.input_tokens, strict=True):
        assert tokens == 12 + -(-len(text) // 4)
        assert "{" not in text


def test_models_agree_on_what_is_hard_and_what_is_long(bear: GridView) -> None:
    for task in TASKS:
        rows = of_task(bear, task)
        score, length = bear.score[rows].T, np.log(bear.output_tokens[rows]).T
        for first, second in ((0, 1), (0, 2), (1, 2)):
            assert 0.2 < np.corrcoef(score[first], score[second])[0, 1] < 0.7
            assert 0.4 < np.corrcoef(length[first], length[second])[0, 1] < 0.9


def test_topics_tell_of_scores_within_a_task_but_not_all(bear: GridView) -> None:
    """Share of the variance within a task between topics: ρλ + (1 - ρ)κ = 0.325, less where held."""
    drawn = cells_only(40_000)
    score = draw_scores(drawn, BEAR.scores, np.random.default_rng(3))
    for family in range(4):
        rows = drawn.family == family
        topic, of_one = drawn.topic[rows], score[rows, 1]
        mean = np.array([of_one[topic == each].mean() for each in range(N_TOPICS)])
        explained = ((mean[topic] - of_one.mean()) ** 2).mean() / of_one.var()
        assert 0.12 < explained < 0.35


def test_generation_stops_at_the_published_limit() -> None:
    tokens = draw_lengths(cells_only(200_000), BEAR.lengths, np.random.default_rng(4))
    assert tokens.max() <= 8_192
    assert tokens.min() >= 3
    ratio = tokens.mean(axis=0) / tokens.mean(axis=0)[1]
    np.testing.assert_allclose(ratio, [0.90, 1.0, 1.05], atol=0.01)


def test_the_manifest_says_what_is_assumed(tmp_path: Path) -> None:
    begun = time.process_time()
    build({"kind": "synth", "preset": "bear", "n": 400, "seed": 7}, tmp_path / "grid")
    assert time.process_time() - begun < 8
    provenance = read_manifest(tmp_path / "grid").provenance
    assert "lengths" in provenance["assumed"]
    assert "mean scores" in provenance["published"]
    assert "synthetic" in (tmp_path / "grid" / "README.md").read_text()


def test_seeds_differ_and_zero_is_one(tmp_path: Path) -> None:
    digests = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        source = {"kind": "synth", "preset": "bear", "n": 40, "seed": seed}
        digests.append(build(source, tmp_path / name).manifest.digest)
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_tiny_grids_have_targets_for_the_tasks_they_hold(tmp_path: Path, n: int) -> None:
    build({"kind": "synth", "preset": "bear", "n": n}, tmp_path / "grid")
    view = open_view(tmp_path / "grid")
    assert view.score.shape == (n, 3)
    assert len(calibration(view)) == 3 * min(n, 4) + 3
    assert all(np.isfinite(target.achieved) for target in calibration(view))
