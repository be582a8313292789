"""A synthetic grid with other mean scores than its preset's: what is asked for, and nothing else moved."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rbx.errors import ConfigError
from rbx.grid.store import open_view
from rbx.grid.synth.calibration import calibration
from rbx.grid.synth.latent import coarse, latent_scores
from rbx.grid.synth.mean_scores import with_mean_scores
from rbx.grid.synth.routebalance_preset import FAMILIES, MODELS, ROUTEBALANCE
from tests.grid.building import build
from tests.grid.synth.test_latent import cells_only

DRAWN = cells_only(20_000, seed=8)
LATENT = latent_scores(DRAWN, ROUTEBALANCE.scores, np.random.default_rng(9))
MATHS = DRAWN.family == [family.name for family in FAMILIES].index("maths")


def test_means_over_all_and_of_one_family_are_met_together() -> None:
    wanted = {"maths": {"Qwen2.5-72B": 0.36}, "all": {"Qwen2.5-7B": 0.30, "Qwen2.5-72B": 0.45}}
    before, after = coarse(LATENT), coarse(with_mean_scores(LATENT, DRAWN.family, ROUTEBALANCE, wanted))
    of = {name: MODELS.index(name) for name in MODELS}
    assert after[:, of["Qwen2.5-72B"]].mean() == pytest.approx(0.45, abs=1e-4)
    assert after[MATHS, of["Qwen2.5-72B"]].mean() == pytest.approx(0.36, abs=1e-3)
    assert after[:, of["Qwen2.5-7B"]].mean() == pytest.approx(0.30, abs=1e-4)
    for name in ("Qwen2.5-3B", "Qwen2.5-14B"):
        np.testing.assert_array_equal(after[:, of[name]], before[:, of[name]])


def test_who_is_good_at_which_prompt_stays() -> None:
    moved = with_mean_scores(LATENT, DRAWN.family, ROUTEBALANCE, {"all": {"Qwen2.5-72B": 0.45}})
    shift = (moved - LATENT)[:, MODELS.index("Qwen2.5-72B")]
    np.testing.assert_allclose(shift, shift[0])
    assert shift[0] > 0


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"sport": {"Qwen2.5-72B": 0.4}}, "no family 'sport'; it has instruction"),
        ({"all": {"Qwen3-8B": 0.4}}, "no model 'Qwen3-8B'; it has Qwen2.5-3B"),
        ({"maths": {"Qwen2.5-72B": 1.0}, "all": {"Qwen2.5-72B": 0.1}}, "would have to score -0.0"),
        (
            {name: {"Qwen2.5-72B": 0.4} for name in [*(family.name for family in FAMILIES), "all"]},
            "can't score 0.4",
        ),
    ],
)
def test_what_cannot_be_is_told(wanted: dict[str, dict[str, float]], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        with_mean_scores(LATENT, DRAWN.family, ROUTEBALANCE, wanted)


def test_a_grid_says_what_was_changed_and_misses_the_targets_that_it_changed(tmp_path: Path) -> None:
    source = {"kind": "synth", "preset": "quickstart", "n": 400}
    changes = {"mean_scores": {"all": {"Qwen2.5-72B": 0.5}}, "seen_affinity": 0.3}
    build(source, tmp_path / "one")
    build({**source, **changes}, tmp_path / "two")
    one, two = open_view(tmp_path / "one"), open_view(tmp_path / "two")
    assert one.prompt_ids == two.prompt_ids
    np.testing.assert_array_equal(one.output_tokens, two.output_tokens)
    achieved = {target.name: target for target in calibration(two)}["mean score, always 72B"]
    assert achieved.achieved == pytest.approx(0.5, abs=0.003)
    assert achieved.published == 0.412
    manifest = json.loads((tmp_path / "two" / "manifest.json").read_text(encoding="utf-8"))
    for name, value in changes.items():
        assert manifest["provenance"][name] == value
