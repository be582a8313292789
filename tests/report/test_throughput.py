"""Throughput is counted within the arrival window: one straggler must not rank policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from rbx.report.analysis import Analysis
from rbx.report.bootstrap import resample_counts
from rbx.report.metrics import measure
from rbx.report.paired import PairedPoints, Resampling
from rbx.report.plane import PLANES
from rbx.report.run import write_report
from tests.report.sweeps import POLICIES, SweepShape, write_sweep

THROUGHPUT = PLANES[1]


def _straggler(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    """The last request takes ten minutes."""
    columns["done_s"] = np.asarray(columns["done_s"]).copy()
    columns["done_s"][-1] += 600.0


def test_one_straggler_changes_no_rank(tmp_path: Path) -> None:
    shape: dict[str, Any] = {
        "policies": POLICIES[4:7],
        "rates_per_s": (6.0,),
        "n_prompts": 60,
        "n_requests": 300,
    }
    plain = write_report(
        write_sweep(tmp_path / "a", SweepShape(**shape)), resampling=Resampling(n_resamples=100)
    )
    torn = write_report(
        write_sweep(tmp_path / "b", SweepShape(**shape, tamper={0: _straggler})),
        resampling=Resampling(n_resamples=100),
    )
    before, after = (each.analysis.results[0].point for each in (plain, torn))
    assert THROUGHPUT.value(before) == THROUGHPUT.value(after) > 4
    late = after.metrics.throughput_to_last_completion_per_s
    assert late < 0.5 * before.metrics.throughput_to_last_completion_per_s
    fronts = [each.analysis.rates[0].frontiers[1].non_dominated for each in (plain, torn)]
    assert fronts[0] == fronts[1]
    cells = pq.read_table(torn.page.parent / "cells.parquet")
    assert cells["throughput_to_last_completion_per_s"][0].as_py() == pytest.approx(late)
    assert cells["throughput_window_per_s"][0].as_py() == pytest.approx(THROUGHPUT.value(after))
    metrics = json.loads((torn.page.parent / "summary.json").read_text())["rates"][0]["points"][0]["metrics"]
    assert metrics["throughput_to_last_completion_per_s"] == pytest.approx(late)
    assert metrics["throughput_window_per_s"] == pytest.approx(THROUGHPUT.value(after))


def test_the_interval_resamples_prompts_at_the_same_rate(analysis: Analysis) -> None:
    """Recomputed on each resample: completions in the window, scaled to the arrivals that there are."""
    points = [result.point for result in analysis.rates[0].results[:2]]
    paired = PairedPoints(points, analysis.sweep.labels, Resampling(n_resamples=300))
    drawn = np.concatenate(list(resample_counts(len(paired.universe), 300, 0))).astype(float)
    values = []
    for point in points:
        total, arrivals = np.zeros(300), np.zeros(300)
        for cell in point.cells:
            run = cell.requests
            weight = drawn[:, np.searchsorted(paired.universe, run.prompt)]
            in_time = run.ok & (run.done_s <= run.scheduled_s.max())
            window_s = run.scheduled_s.max() - run.scheduled_s.min()
            total += weight @ in_time / window_s / len(point.cells)
            arrivals += weight.sum(axis=1)
        values.append(total / (arrivals / sum(len(cell.requests.prompt) for cell in point.cells)))
    found = THROUGHPUT.saving(paired, points[0], points[1])
    low, high = np.quantile(values[0] - values[1], [0.025, 0.975])
    assert (found.low, found.high) == pytest.approx((low, high))
    gap = [measure(point.cells).throughput_window_per_s for point in points]
    assert found.value == pytest.approx(gap[0] - gap[1])
    assert found.low < found.value < found.high
