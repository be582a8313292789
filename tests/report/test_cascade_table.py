"""The table of what cascades did, and cells whose counts of answers can't be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbx.config.policy import RoutedPolicy
from rbx.report.analysis import analyse
from rbx.report.cascade_table import cascade_table
from rbx.report.load import read_sweep
from rbx.report.page import render_page
from rbx.report.page_tables import page_tables
from rbx.report.paired import Resampling
from tests.report.sweeps import SweepShape, write_sweep

N = 120
POLICIES = (
    RoutedPolicy(router="cascade", dispatch="shortest-queue", mean_budget_usd=1e-4),
    RoutedPolicy(router="passthrough", dispatch="shortest-queue"),
)


def _asked(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    columns["models_asked"] = [
        int(status == "ok") * (1 + row % 4 // 2) for row, status in enumerate(columns["status"])
    ]


def _nobody(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    columns["models_asked"] = [0] * N


def test_models_are_counted_over_the_requests_that_have_an_answer(tmp_path: Path) -> None:
    shape = SweepShape(policies=POLICIES, rates_per_s=(6.0,), n_requests=N, tamper={0: _asked})
    sweep = read_sweep(write_sweep(tmp_path / "sweep", shape))
    assert not sweep.invalid
    analysis = analyse(sweep, baseline=None, resampling=Resampling(n_resamples=200))
    table = cascade_table(analysis.rates[0])
    assert table is not None
    (row,) = table.rows
    assert row[0].text == POLICIES[0].label
    asked = [value for value in sweep.cells[0].requests.models_asked.tolist() if value >= 1]
    assert row[1].sort == len(asked) > 100
    assert row[2].sort == pytest.approx(sum(asked) / len(asked))
    assert [value.sort for value in row[3:]] == pytest.approx(
        [asked.count(k) / len(asked) for k in (1, 2, 3)]
    )
    assert render_page(analysis, page_tables(analysis), []).count('aria-label="Cascades"') == 1


def test_answers_of_nobody_are_refused(tmp_path: Path) -> None:
    shape = SweepShape(policies=POLICIES, rates_per_s=(6.0,), n_requests=N, tamper={0: _nobody})
    sweep = read_sweep(write_sweep(tmp_path / "sweep", shape))
    assert "models_asked at odds with status" in str(sweep.invalid)
