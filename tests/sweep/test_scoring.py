"""Records of a simulated cell: prices, labels, budgets and targets recomputed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rbx.config.policy import RouteBalancePolicy
from rbx.sweep.context import SweepContext
from rbx.sweep.records import RECORDS
from rbx.sweep.scoring import simulated_records
from tests.sweep.scenes import small_context
from tests.sweep.test_simulate import run


def records_of(context: SweepContext, **options: Any) -> tuple[pa.Table, list[dict[str, Any]]]:
    arriving, outcome = run(context, RouteBalancePolicy(weights=(0.6, 0.2, 0.2)), **options)
    table = simulated_records("cell", context, arriving, outcome)
    assert table.schema == RECORDS
    rows = table.to_pylist()
    assert len(rows) == len(arriving.prompt)
    return table, rows


def test_cost_and_quality_come_from_the_model_that_answered() -> None:
    context = small_context(workload={"max_output_tokens": 2000})
    _, rows = records_of(context)
    price = {"small": 0.06e-6, "large": 0.40e-6}
    prompts = context.prompts
    seen = set()
    for row in rows:
        p, m = prompts.prompt_ids.index(row["prompt_id"]), prompts.models.index(row["model"])
        seen.add(row["model"])
        assert row["output_tokens"] == prompts.output_tokens[p, m]
        tokens = row["input_tokens"] + row["output_tokens"]
        assert row["cost_usd"] == pytest.approx(tokens * price[row["model"]])
        label = prompts.score[p, m]
        assert row["quality"] == (None if np.isnan(label) else label)
        assert row["quality_status"] == ("missing" if np.isnan(label) else "ok")
    assert seen == {"small", "large"}


def test_a_score_of_zero_stays_a_score() -> None:
    _, rows = records_of(small_context(workload={"max_output_tokens": 2000}))
    zeros = [row for row in rows if row["quality"] == 0.0]
    assert zeros
    assert all(row["quality_status"] == "ok" for row in zeros)


def test_a_cut_answer_has_no_label() -> None:
    _, rows = records_of(small_context(workload={"max_output_tokens": 50}))
    cut = [row for row in rows if row["quality_status"] == "truncated"]
    assert cut
    assert all(row["quality"] is None and row["output_tokens"] == 50 and not row["exhausted"] for row in cut)


def test_budgets_are_never_passed_but_by_the_one_token_minimum() -> None:
    budget = {"share": 1.0, "low_usd": 5e-6, "high_usd": 6e-5}
    context = small_context(workload={"max_output_tokens": 2000, "budget": budget})
    _, rows = records_of(context)
    assert any(row["exhausted"] for row in rows)
    assert any(not row["exhausted"] for row in rows)
    for row in rows:
        within = row["cost_usd"] <= row["budget_usd"] * (1 + 1e-9)
        assert within or row["output_tokens"] == 1
        assert row["exhausted"] <= (row["quality_status"] == "truncated")


def test_targets_are_judged_only_where_there_are_any() -> None:
    _, rows = records_of(small_context())
    assert {row["slo_met"] for row in rows} == {None}
    context = small_context(workload={"slo": {"ttft_s": 0.2, "e2e_s": 5.0}})
    _, rows = records_of(context, rate_per_s=60.0)
    for row in rows:
        in_time = (
            row["first_token_s"] - row["scheduled_s"] <= 0.2 and row["done_s"] - row["scheduled_s"] <= 5.0
        )
        assert row["slo_met"] == in_time
    assert {row["slo_met"] for row in rows} == {True, False}


def test_unplaced_requests_are_errors_with_nothing_made_up() -> None:
    context = small_context(workload={"slo": {"e2e_s": 60.0}})
    context.prompts.input_tokens[3] = 5000
    _, rows = records_of(context)
    failed = [row for row in rows if row["status"] == "error"]
    assert failed
    for row in failed:
        assert row["prompt_id"] == "p003"
        assert row["slo_met"] is False
        assert row["cost_usd"] == 0.0
        for column in ("instance", "tier", "model", "first_token_s", "done_s", "quality"):
            assert row[column] is None
