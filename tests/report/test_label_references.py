"""A policy that saw the labels is measured by, and beats nobody."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rbx.config.policy import RoutedPolicy
from rbx.report.analysis import analyse
from rbx.report.load import read_sweep
from rbx.report.paired import Resampling
from tests.report.sweeps import POLICIES, SweepShape, write_sweep

ORACLE = RoutedPolicy(router="oracle", dispatch="shortest-queue")


def test_it_is_shown_and_takes_no_part_in_duels_frontiers_and_winners(tmp_path: Path) -> None:
    shape = SweepShape(
        policies=(ORACLE, *POLICIES[:2], POLICIES[5]), rates_per_s=(6.0,), n_prompts=40, n_requests=60
    )

    def perfect(columns: dict[str, object], summary: dict[str, object]) -> None:
        """Best of all in quality and latency, so that it would win whatever it may."""
        quality = np.asarray(columns["quality"], dtype=np.float64)
        columns["quality"] = np.where(np.isnan(quality), quality, 1.0)

    unlike = SweepShape(**{**vars(shape), "tamper": {0: perfect}})
    sweep = read_sweep(write_sweep(tmp_path / "sweep", unlike))
    analysis = analyse(sweep, baseline=None, resampling=Resampling(n_resamples=50))
    (rate,) = analysis.rates
    assert ORACLE.label in {result.point.label for result in rate.results}
    assert analysis.baseline_label != ORACLE.label
    assert {duel.baseline.label for duel in rate.duels} == {POLICIES[5].label}
    for frontier in rate.frontiers:
        assert frontier.non_dominated
        assert ORACLE.label not in (*frontier.non_dominated, *frontier.hull)
    assert rate.winners
    assert ORACLE.label not in {winner.result.point.label for winner in rate.winners}
