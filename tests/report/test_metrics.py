"""Metrics against a plain recomputation from the Parquet files, row by row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbx.report.load import Sweep, read_sweep
from rbx.report.metrics import measure
from rbx.report.point import to_points
from tests.report.sweeps import POLICIES, SweepShape, write_sweep


def _rows(sweep: Sweep, cell_id: str) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(sweep.folder / "cells" / f"{cell_id}.parquet").to_pylist()
    return rows


def test_every_figure_of_a_cell_follows_from_its_rows(sweep: Sweep) -> None:
    cell = sweep.cells[1]
    rows = _rows(sweep, cell.spec.cell_id)
    m = measure([cell])
    ok = [row for row in rows if row["status"] == "ok"]
    assert 0 < len(ok) < len(rows) == m.counts.scheduled
    assert m.counts.error == len(rows) - len(ok)
    scores = [row["quality"] for row in ok if row["quality"] is not None]
    assert 0 < len(scores) < len(ok)
    assert m.quality_mean == pytest.approx(np.mean(scores))
    assert m.coverage == pytest.approx(len(scores) / len(ok))
    failed = len(rows) - len(ok)
    assert m.utility_mean == pytest.approx(sum(scores) / (len(scores) + failed))
    e2e = [row["done_s"] - row["scheduled_s"] for row in ok]
    assert m.e2e_s.mean == pytest.approx(np.mean(e2e))
    assert m.e2e_s.p99 == pytest.approx(np.percentile(e2e, 99))
    first = [row["first_token_s"] - row["scheduled_s"] for row in ok]
    assert (m.ttft_s.mean, m.ttft_s.p50) == pytest.approx((np.mean(first), np.percentile(first, 50)))
    assert m.ttft_s.mean - m.ttft_from_sent_s.mean == pytest.approx(0.001)
    assert m.send_delay_p99_s == pytest.approx(0.001)
    tpot = [
        (row["done_s"] - row["first_token_s"]) / (row["output_tokens"] - 1)
        for row in ok
        if row["output_tokens"] >= 2
    ]
    assert m.tpot_s.mean == pytest.approx(np.mean(tpot))
    cost = sum(row["cost_usd"] for row in rows)
    assert m.cost_total_usd == pytest.approx(cost)
    assert m.cost_per_request_usd == pytest.approx(cost / len(ok))
    span = max(row["done_s"] for row in ok) - min(row["sent_s"] for row in rows)
    assert m.throughput_to_last_completion_per_s == pytest.approx(len(ok) / span)
    last, start = max(row["scheduled_s"] for row in rows), min(row["scheduled_s"] for row in rows)
    early = sum(row["done_s"] <= last for row in ok)
    assert m.throughput_window_per_s == pytest.approx(early / (last - start))
    met = sum(bool(row["slo_met"]) for row in ok)
    assert m.slo_attainment == pytest.approx(met / len(rows))
    assert m.goodput_per_s == pytest.approx(met / (last - start))
    tier = sum(row["tier"] == "3b-a30" for row in ok)
    assert m.tier_share["3b-a30"] == pytest.approx(tier / len(ok))
    assert sum(m.model_share.values()) == pytest.approx(1)
    busy = cell.summary.busy_s
    assert m.utilization == pytest.approx(sum(busy.values()) / len(busy) / cell.summary.duration_s)
    assert m.tier_utilization["3b-a30"] == pytest.approx(busy["3b-a30/0"] / cell.summary.duration_s)


def test_seeds_are_pooled_by_request_and_averaged_by_clock(sweep: Sweep) -> None:
    point = to_points(sweep.cells)[0]
    first, second = (measure([cell]) for cell in point.cells)
    both = point.metrics
    n = first.e2e_s.n + second.e2e_s.n
    assert both.e2e_s.n == n
    pooled = (first.e2e_s.mean * first.e2e_s.n + second.e2e_s.mean * second.e2e_s.n) / n
    assert both.e2e_s.mean == pytest.approx(pooled)
    assert both.throughput_window_per_s == pytest.approx(
        (first.throughput_window_per_s + second.throughput_window_per_s) / 2
    )


def test_failures_cost_targets_throughput_and_utility_but_not_latency(tmp_path: Path) -> None:
    shape: dict[str, Any] = {
        "policies": POLICIES[:1],
        "rates_per_s": (6.0,),
        "n_prompts": 60,
        "n_requests": 60,
    }
    whole = read_sweep(write_sweep(tmp_path / "a", SweepShape(**shape)))
    torn = read_sweep(write_sweep(tmp_path / "b", SweepShape(**shape, failures=0.3)))
    good, bad = measure(whole.cells), measure(torn.cells)
    assert bad.counts.error > 5
    survived = torn.cells[0].requests.ok
    assert bad.e2e_s.mean == pytest.approx(whole.cells[0].requests.e2e_s[survived].mean())
    assert bad.slo_attainment < good.slo_attainment
    assert bad.utility_mean < good.utility_mean
    assert bad.throughput_window_per_s < good.throughput_window_per_s


def test_a_cell_where_nothing_completed_has_no_figures_but_counts(tmp_path: Path) -> None:
    shape = SweepShape(policies=POLICIES[:1], rates_per_s=(6.0,), n_prompts=10, n_requests=10, failures=1.0)
    m = measure(read_sweep(write_sweep(tmp_path / "s", shape)).cells)
    assert (m.counts.ok, m.counts.error, m.counts.scheduled) == (0, 10, 10)
    assert np.isnan([m.quality_mean, m.e2e_s.mean, m.cost_per_request_usd, m.duration_s]).all()
    assert m.throughput_to_last_completion_per_s == 0
    assert m.slo_attainment == 0
    assert m.utility_mean == 0


def test_a_seed_that_failed_wholly_counts_as_nothing_done_not_as_absent(tmp_path: Path) -> None:
    shape = SweepShape(policies=POLICIES[:1], rates_per_s=(6.0,), n_prompts=10, n_requests=10)
    good = read_sweep(write_sweep(tmp_path / "good", replace(shape, failures=0.0))).cells
    bad = read_sweep(write_sweep(tmp_path / "bad", replace(shape, failures=1.0))).cells
    alone, together = measure(good[:1]), measure([good[0], bad[0]])
    for figure in (
        "throughput_to_last_completion_per_s",
        "throughput_window_per_s",
        "output_tokens_per_s",
        "goodput_per_s",
    ):
        assert getattr(together, figure) == pytest.approx(getattr(alone, figure) / 2), figure
    assert together.duration_s == alone.duration_s


def test_without_a_target_there_is_no_attainment(tmp_path: Path) -> None:
    shape = SweepShape(policies=POLICIES[:1], rates_per_s=(6.0,), n_prompts=10, n_requests=10, slo=False)
    m = measure(read_sweep(write_sweep(tmp_path / "s", shape)).cells)
    assert np.isnan(m.slo_attainment)
    assert np.isnan(m.goodput_per_s)
