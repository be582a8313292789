"""What ``rbx sweep`` warns of before it runs."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from rich.console import Console

from rbx.cli.sweep import _warn_of_saturated_scoring
from rbx.sweep.plan import Plan
from rbx.sweep.store import CellSpec
from tests.sweep.scenes import small_context

CELL = CellSpec(
    cell_id="c",
    label="knn/shortest-queue serial",
    policy={"kind": "routed"},
    rate_per_s=12.0,
    load=None,
    seed=0,
    workload_hash="h",
    n_requests=10,
)


def warned(manifest: dict[str, Any]) -> str:
    cells = tuple(replace(CELL, rate_per_s=rate, seed=seed) for rate in (12.0, 24.0, 30.0) for seed in (0, 1))
    told = io.StringIO()
    plan = Plan(small_context(), (*cells, replace(CELL, label="other", rate_per_s=99.0)), manifest)
    _warn_of_saturated_scoring(Console(file=told, width=300), plan)
    return told.getvalue()


def test_rates_beyond_what_scoring_can_take_are_named_once() -> None:
    line = warned({"scoring_per_s": {CELL.label: 16.237}})
    assert line.count("\n") == 1
    assert "knn/shortest-queue serial: prompts are scored at 16.2 requests/s at most" in line
    assert "λ = 24, 30 is more" in line
    assert "other" not in line


def test_nothing_is_said_where_scoring_keeps_up_or_nobody_knows() -> None:
    assert warned({"scoring_per_s": {CELL.label: 40.0}}) == ""
    assert warned({}) == ""
