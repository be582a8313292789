"""A policy that knew what nobody knows of a live request is measured by, and beats nobody."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rbx.config.policy import RoutedPolicy
from rbx.config.references import REFERENCES
from rbx.report.analysis import analyse
from rbx.report.answer import answer
from rbx.report.headline import headline
from rbx.report.load import read_sweep
from rbx.report.paired import Resampling
from tests.report.sweeps import POLICIES, SweepShape, write_sweep


def perfect(columns: dict[str, object], summary: dict[str, object]) -> None:
    """Best of all in quality, so that it would win whatever it may."""
    quality = np.asarray(columns["quality"], dtype=np.float64)
    columns["quality"] = np.where(np.isnan(quality), quality, 1.0)


def of(router: str) -> RoutedPolicy:
    return RoutedPolicy.model_validate({"router": router, "dispatch": "shortest-queue"})


@pytest.mark.parametrize("router", sorted(REFERENCES))
def test_it_is_shown_and_takes_no_part_in_duels_frontiers_and_winners(tmp_path: Path, router: str) -> None:
    policy = of(router)
    shape = SweepShape(
        policies=(policy, *POLICIES[:2], POLICIES[5]), rates_per_s=(6.0,), n_prompts=40, n_requests=60
    )
    unlike = SweepShape(**{**vars(shape), "tamper": {0: perfect}})
    sweep = read_sweep(write_sweep(tmp_path / "sweep", unlike))
    analysis = analyse(sweep, baseline=None, resampling=Resampling(n_resamples=50))
    (rate,) = analysis.rates
    assert policy.label in {result.point.label for result in rate.results}
    assert analysis.baseline_label != policy.label
    assert {duel.baseline.label for duel in rate.duels} == {POLICIES[5].label}
    for frontier in rate.frontiers:
        assert frontier.non_dominated
        assert policy.label not in (*frontier.non_dominated, *frontier.hull)
    assert rate.winners
    assert policy.label not in {winner.result.point.label for winner in rate.winners}


@pytest.mark.parametrize("router", sorted(REFERENCES))
def test_it_is_not_counted_among_those_that_could_lead(tmp_path: Path, router: str) -> None:
    shape = SweepShape(
        policies=(of(router), *POLICIES[5:8]),
        rates_per_s=(6.0,),
        n_prompts=40,
        n_requests=60,
        tamper={0: perfect},
    )
    sweep = read_sweep(write_sweep(tmp_path / "sweep", shape))
    analysis = analyse(sweep, baseline=None, resampling=Resampling(n_resamples=50))
    lines = [line for each in answer(analysis) for line in each.lines]
    assert any(" of 3: " in line for line in lines)
    assert not any(router in line for line in lines)
    told = [line for line in headline(analysis).warnings if line.startswith("References know")]
    assert told == [
        "References know what nobody knows of a live request; they are shown and count in no comparison: "
        f"{of(router).label}."
    ]
