"""What ``rbx sweep`` warns of before it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rbx.cli.sweep_warnings import (
    cells_left_behind,
    dear_cascades,
    filters_without_budgets,
    saturated_loop,
    saturated_scoring,
)
from rbx.durable import write_json
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


def warned(manifest: dict[str, Any]) -> list[str]:
    cells = tuple(replace(CELL, rate_per_s=rate, seed=seed) for rate in (12.0, 24.0, 30.0) for seed in (0, 1))
    plan = Plan(small_context(), (*cells, replace(CELL, label="other", rate_per_s=99.0)), manifest)
    return list(saturated_scoring(plan))


def test_rates_beyond_what_scoring_can_take_are_named_once() -> None:
    (line,) = warned({"scoring_per_s": {CELL.label: 16.237}})
    assert "knn/shortest-queue serial: prompts are scored at 16.2 requests/s at most" in line
    assert "λ = 24, 30 is more" in line
    assert "other" not in line


def test_nothing_is_said_where_scoring_keeps_up_or_nobody_knows() -> None:
    assert warned({"scoring_per_s": {CELL.label: 40.0}}) == []
    assert warned({}) == []


def test_a_live_sweep_has_no_loop_of_ours_to_warn_of() -> None:
    cell = replace(CELL, policy={"kind": "routebalance"})
    manifest = {"decision_loop_per_s": None, "bundle": {"encoder": "minilm"}}
    assert list(saturated_loop(Plan(small_context(), (cell,), manifest))) == []
    (line,) = saturated_loop(Plan(small_context(), (cell,), {**manifest, "decision_loop_per_s": 10.0}))
    assert "at most, and λ = 12 is more" in line


BUDGET = {"low_usd": 1e-6, "high_usd": 1e-5}


@pytest.mark.parametrize(
    ("kind", "workload", "told"),
    [
        ("budget", {}, True),
        ("none", {}, True),
        ("budget", {"budget": {"share": 0.0, **BUDGET}}, True),
        ("budget", {"budget": {"share": 0.1, **BUDGET}}, False),
        ("none", {"budget": {"share": 0.1, **BUDGET}}, False),
        ("cdf", {}, False),
        (None, {}, False),
    ],
)
def test_a_filter_of_budgets_alone_is_named_where_no_request_has_one(
    kind: str | None, workload: dict[str, Any], told: bool
) -> None:
    policy = {"kind": "routed"} if kind is None else {"kind": "routed", "filter": {"kind": kind}}
    cells = tuple(replace(CELL, policy=policy, seed=seed) for seed in (0, 1))
    lines = list(filters_without_budgets(Plan(small_context(workload=workload), cells, {})))
    assert len(lines) == told
    assert all(f"filter {kind}" in line and line.count(CELL.label) == 1 for line in lines)


def manifest_of(*cells: str, seeds: list[int], bundle: str = "b") -> dict[str, Any]:
    return {
        "name": "s",
        "grid": {"digest": "g"},
        "bundle": {"digest": bundle},
        "pool": {"digest": "p"},
        "config": {"workload": {"seeds": seeds, "rates_per_s": [1.0]}, "policies": [{"kind": "random"}]},
        "cells": [{"cell_id": cell} for cell in cells],
    }


def left(folder: Path, *cells: str, **of: Any) -> str:
    plan = Plan(small_context(), tuple(replace(CELL, cell_id=cell) for cell in cells), manifest_of(**of))
    return " ".join(cells_left_behind(plan, folder))


def test_finished_cells_that_a_new_plan_drops_are_told_with_what_differs(tmp_path: Path) -> None:
    assert left(tmp_path, "a", seeds=[0]) == ""
    write_json(manifest_of("a", "b", "c", seeds=[0, 1]), tmp_path / "manifest.json")
    (tmp_path / "cells").mkdir()
    assert left(tmp_path, "z", seeds=[2]) == ""  # nothing was finished
    for cell in ("a", "b"):
        (tmp_path / "cells" / f"{cell}.json").write_text("{}")
    assert left(tmp_path, "a", "b", "d", seeds=[0, 1, 2]) == ""
    line = left(tmp_path, "a", seeds=[0])
    assert "holds 1 finished cells" in line
    assert line.endswith("What differs: workload.seeds")
    assert left(tmp_path, "z", seeds=[0, 1], bundle="other").endswith("What differs: bundle")
    assert "rbx itself" in left(tmp_path, "z", seeds=[0, 1])
    write_json({**manifest_of("a", seeds=[0]), "name": "another"}, tmp_path / "manifest.json")
    assert left(tmp_path, "z", seeds=[0]) == ""  # which is refused


def test_a_cascade_whose_budget_no_chain_meets_is_told() -> None:
    chains = {
        "cascade b$3e-05": {"cost_usd": 4.489e-5, "asked": ["small"]},
        "cascade b$6e-05": {"cost_usd": 5.9e-5, "asked": ["small", "large"]},
    }
    asked = [{"kind": "routed", "router": "cascade", "mean_budget_usd": each} for each in (3e-5, 6e-5)]
    other = {"kind": "routed", "router": "cascade", "mean_budget_usd": None}
    policies: list[dict[str, Any]] = [*asked, *asked, other]
    cells = tuple(replace(CELL, policy=policy) for policy in policies)
    (line,) = dear_cascades(Plan(small_context(), cells, {"cascades": chains}))
    assert line.startswith("cascade b$3e-05: no chain costs so little; it asks small alone")
    assert "4.49e-05 USD" in line
    assert list(dear_cascades(Plan(small_context(), cells, {}))) == []
