"""The second judge agrees with the first as published, and leaves the first alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from rbx.grid.spec import SynthSource
from rbx.grid.store import open_view
from rbx.grid.synth.latent import coarse, latent_scores
from rbx.grid.synth.routebalance_preset import ROUTEBALANCE
from rbx.grid.synth.second_judge import second_scores
from tests.grid.building import build
from tests.grid.synth.test_latent import cells_only

RANDOM_INSTANCE = np.array([3.0, 5.0, 3.0, 2.0]) / 13.0


def test_agreement_and_level_are_the_published_ones() -> None:
    latent = latent_scores(cells_only(100_000, seed=4), ROUTEBALANCE.scores, np.random.default_rng(5))
    first, second = coarse(latent), second_scores(latent, np.random.default_rng(6))
    assert set(np.unique(np.rint(10 * second))) == set(range(11))
    assert np.corrcoef(first.ravel(), second.ravel())[0, 1] == pytest.approx(0.555, abs=0.006)
    assert second.mean(axis=0) @ RANDOM_INSTANCE == pytest.approx(0.642, abs=0.004)
    # Both rank the models alike; that is what they have in common.
    assert np.argsort(second.mean(axis=0)).tolist() == np.argsort(first.mean(axis=0)).tolist()


def test_latent_qualities_that_are_all_alike_are_judged_at_random() -> None:
    scores = second_scores(np.full((400, 4), 0.3), np.random.default_rng(7))
    assert np.isfinite(scores).all()
    assert scores.std() > 0.2


def test_a_grid_with_a_second_judge_has_the_first_one_s_labels_too(tmp_path: Path) -> None:
    source = {"kind": "synth", "preset": "quickstart", "n": 300}
    build(source, tmp_path / "one")
    build({**source, "second_judge": True}, tmp_path / "two")
    one, two = open_view(tmp_path / "one"), open_view(tmp_path / "two")
    other = open_view(tmp_path / "two", "second-judge")
    assert two.metric == one.metric == "quality"
    np.testing.assert_array_equal(one.score, two.score)
    np.testing.assert_array_equal(one.output_tokens, two.output_tokens)
    assert one.prompt_ids == two.prompt_ids == other.prompt_ids
    assert one.digest != two.digest
    assert np.isfinite(other.score).all()
    assert (other.score != two.score).mean() > 0.5


def test_bear_has_no_second_judge() -> None:
    with pytest.raises(ValidationError, match="BEAR"):
        SynthSource(kind="synth", preset="bear", second_judge=True)
