"""The table of what filters did: counted from the records, and only where there was a filter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rbx.config.policy import RouteBalancePolicy, RoutedPolicy
from rbx.report.admission_table import admission_table
from rbx.report.analysis import analyse
from rbx.report.load import read_sweep
from rbx.report.page import render_page
from rbx.report.page_tables import page_tables
from rbx.report.paired import Resampling
from tests.report.sweeps import SweepShape, write_sweep

N = 150
WORDS = ["strict"] * 75 + ["relaxed 1"] * 20 + ["relaxed 6"] * 10 + ["all"] * 15 + ["cheapest"] * 30


def _filter(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    columns["admission"] = WORDS
    columns["admitted_candidates"] = [13] * 75 + [2] * 45 + [4] * 30


def test_shares_are_counted_over_the_requests_that_a_filter_saw(tmp_path: Path) -> None:
    policies = (
        RouteBalancePolicy(weights=(0.5, 0.3, 0.2)),
        RoutedPolicy(router="passthrough", dispatch="shortest-queue"),
    )
    shape = SweepShape(policies=policies, rates_per_s=(6.0, 12.0), n_requests=N, tamper={0: _filter})
    sweep = read_sweep(write_sweep(tmp_path / "sweep", shape))
    assert not sweep.invalid
    analysis = analyse(sweep, baseline=None, resampling=Resampling(n_resamples=200))
    filtered, plain = analysis.rates
    assert admission_table(plain) is None
    table = admission_table(filtered)
    assert table is not None
    (row,) = table.rows
    texts = [value.text for value in row]
    assert texts[0] == policies[0].label
    assert texts[1] == "150"
    assert row[2].sort == (13 * 75 + 2 * 45 + 4 * 30) / 150
    assert texts[3:] == ["50 %", "20 %", "10 %", "20 %", "0 %"]
    page = render_page(analysis, page_tables(analysis), [])
    assert page.count('aria-label="Filters"') == 1
