"""On-time figures against values worked out by hand, and against the rows of a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from rbx.config.policy import BearPolicy
from rbx.report.load import Sweep
from rbx.report.ontime.metrics import measure_on_time
from rbx.report.ontime.rule import OnTimeRule
from rbx.report.ontime.study import OnTimeStudy
from tests.report.ontime.handmade import Served, handmade_sweep

BEAR = BearPolicy()


def _sweep(folder: Path, requests: list[Served], **settings: Any) -> Sweep:
    return handmade_sweep(folder / "s", {(1.0, BEAR): requests}, **settings)


def test_late_failed_and_shed_requests_are_worth_nothing(tmp_path: Path) -> None:
    requests = [
        Served(ttft_s=0.2, target_s=0.2, quality=0.8, cost_usd=2e-4, candidates=3),  # at its target: in time
        Served(ttft_s=0.3, target_s=0.2, quality=1.0, cost_usd=4e-4, candidates=1),  # late
        Served(status="error", candidates=2),
        Served(status="shed", candidates=0),
        Served(ttft_s=0.1, quality=None, candidates=0),  # in time, but nobody knows how good
        Served(ttft_s=0.9, quality=None, candidates=0),  # late: worth nothing, whatever it says
        Served(ttft_s=0.1, quality=0.1, cost_usd=6e-4, candidates=1),  # costs more than it is worth
        Served(ttft_s=0.1, quality=0.0, cost_usd=0.0, candidates=1),  # zero is a score
    ]
    sweep = _sweep(tmp_path, requests)
    assert sweep.on_time == OnTimeRule(500.0)
    m = measure_on_time(sweep.cells, sweep.on_time)
    assert (m.scheduled, m.on_time) == (8, 4)
    assert m.attainment == pytest.approx(4 / 8)
    # 0.8 − 500·2e-4 = 0.7; 0.1 − 500·6e-4 = −0.2; 0; the one without a score is left out
    assert m.on_time_utility == pytest.approx((0.7 - 0.2 + 0.0) / 7)
    assert m.coverage == pytest.approx(7 / 8)
    # without the gate the late one counts 1 − 0.2 = 0.8, and both without a score are left out
    assert m.ungated_utility == pytest.approx((0.7 + 0.8 - 0.2 + 0.0) / 6)
    # done two seconds after the first token: of those in time only 0 and 4 end by the last arrival, at 7 s
    assert m.goodput_per_s == pytest.approx(2 / 7)
    assert m.cost_per_request_usd == pytest.approx((2e-4 + 4e-4 + 1e-4 + 1e-4 + 6e-4) / 8)
    assert m.infeasible_share == pytest.approx(3 / 8)
    assert m.shed_share == pytest.approx(1 / 8)
    assert sum(m.model_share.values()) == pytest.approx(6 / 8)


def test_without_costs_and_all_in_time_it_is_the_mean_quality(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    quality = rng.random(40).round(3)
    requests = [Served(quality=float(q), ttft_s=0.1, target_s=0.1001) for q in quality]
    sweep = _sweep(tmp_path, requests, cost_weight_per_usd=0.0)
    assert sweep.on_time is not None
    m = measure_on_time(sweep.cells, sweep.on_time)
    assert m.attainment == 1.0
    assert m.on_time_utility == pytest.approx(quality.mean())
    assert m.ungated_utility == pytest.approx(quality.mean())


def test_a_policy_that_asks_nobody_has_no_infeasible_share(tmp_path: Path) -> None:
    sweep = _sweep(tmp_path, [Served(), Served()])
    assert sweep.on_time is not None
    assert np.isnan(measure_on_time(sweep.cells, sweep.on_time).infeasible_share)


def test_every_point_of_a_sweep_follows_from_its_rows(study: OnTimeStudy, timed_folder: Path) -> None:
    assert len(study.results) == 18
    for result in study.results:
        files = [timed_folder / "cells" / f"{cell.spec.cell_id}.parquet" for cell in result.point.cells]
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        worth = []
        early = 0
        for row in rows:
            is_early = (
                row["status"] == "ok" and row["first_token_s"] - row["scheduled_s"] <= row["ttft_target_s"]
            )
            early += is_early
            if not is_early:
                worth.append(0.0)
            elif row["quality"] is not None:
                worth.append(row["quality"] - 500 * row["cost_usd"])
        assert len(rows) == 220
        assert result.metrics.attainment == pytest.approx(early / 220)
        assert result.metrics.on_time_utility == pytest.approx(np.mean(worth))
        assert result.metrics.coverage == pytest.approx(len(worth) / 220)
        for over in (result.over_time, result.over_prompts):
            assert over["on_time_utility"].value == pytest.approx(result.metrics.on_time_utility)
            assert over["attainment"].value == pytest.approx(result.metrics.attainment)
            assert over["ungated_utility"].value == pytest.approx(result.metrics.ungated_utility)
            assert all(each.low < each.value < each.high for each in over.values())
        assert 0 < early < 220
    assert sum(result.metrics.coverage < 1 for result in study.results) >= 12
