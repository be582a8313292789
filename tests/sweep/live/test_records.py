"""What becomes of a result of the load client: each column against a reading of its definition."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rbx.load.client.result import not_sent
from rbx.sweep.live.records import Reading
from rbx.sweep.live.table import LIVE, live_table
from rbx.sweep.records import RECORDS
from tests.sweep.live.results import TEXT, answered, ok, reading

TRACE = {
    "batch_id": 4,
    "batch_size": 3,
    "batch_wait_s": 0.02,
    "encode_s": 0.003,
    "score_s": 0.001,
    "decided_after_s": 0.025,
    "dispatched_after_s": 0.026,
    "predicted_quality": 0.5,
    "predicted_length_tokens": 120.0,
    "predicted_latency_s": 1.5,
    "predicted_ttft_s": 0.2,
    "on_time_candidates": 2,
    "max_tokens": 300,
    "max_tokens_without_budget": 400,
    "telemetry_age_s": 0.4,
}


def only(read: Reading, result: Any) -> dict[str, Any]:
    table = read.records(answered(read, result))
    assert table.schema.equals(RECORDS)
    (row,) = table.to_pylist()
    return dict(row)


def test_a_wait_for_scoring_has_a_column_where_somebody_tells_of_one() -> None:
    read = reading()
    told = {**TRACE, "scoring_wait_s": 0.25}
    scored = ok(3, "large_gpu/1", headers={"x-rbx-trace": json.dumps(told)})
    other = ok(4, "large_gpu/1", headers={"x-rbx-trace": json.dumps(TRACE)})
    table = read.records(answered(read, scored, other))
    assert table.column_names[-1] == "scoring_wait_s"
    assert table["scoring_wait_s"].to_pylist() == [0.25, None]


def test_a_whole_answer_tells_everything() -> None:
    read = reading(columns={"ttft_target_s": [0.15] * 8, "budget_usd": [0.01] * 8})
    row = only(read, ok(3, "large_gpu/1", headers={"x-rbx-trace": json.dumps(TRACE)}))
    price = 0.40 / 1e6
    score = read.context.prompts.score[3, 1]
    assert row == {
        "cell_id": "c0",
        "request": 3,
        "prompt_id": "p003",
        "attempt": 1,
        "scheduled_s": 3.0,
        "sent_s": pytest.approx(3.001),
        "decided_s": pytest.approx(3.026),
        "dispatched_s": pytest.approx(3.027),
        "first_token_s": pytest.approx(3.101),
        "done_s": pytest.approx(3.191),  # the last token, not the end of the stream
        "status": "ok",
        "instance": "large_gpu/1",
        "tier": "large_gpu",
        "model": "large",
        "input_tokens": 50,
        "output_tokens": 20,
        "tokens_source": "usage",
        "max_tokens": 300,
        "predicted_quality": 0.5,
        "predicted_length_tokens": 120.0,
        "predicted_latency_s": 1.5,
        "predicted_ttft_s": pytest.approx(0.201),  # the gateway's, from the scheduled send
        "ttft_target_s": 0.15,
        "on_time_candidates": 2,
        "quality": score,
        "quality_source": "lookup",
        "quality_status": "ok",
        "cost_usd": pytest.approx(70 * price),
        "budget_usd": 0.01,
        "exhausted": False,
        "slo_met": None if math.isnan(score) else True,
        "batch_wait_s": pytest.approx(0.02),
        "encode_s": pytest.approx(0.003),
        "score_s": pytest.approx(0.001),
        "batch_id": 4,
        "batch_size": 3,
        "decision_mode": "policy",
        "config_version": 2,
        "telemetry_age_s": pytest.approx(0.4),
        "preemptions": None,
    }


def test_times_before_the_sending_are_no_gateways() -> None:
    told = '{"decided_after_s": -1e9, "dispatched_after_s": -0.5, "predicted_ttft_s": -1.0}'
    row = only(reading(), ok(3, headers={"x-rbx-trace": told}))
    assert (row["decided_s"], row["dispatched_s"], row["predicted_ttft_s"]) == (None, None, None)


def test_what_was_never_sent_has_no_times_and_costs_nothing() -> None:
    row = only(reading(columns={"ttft_target_s": [1.0] * 8}), not_sent(2, 2.0))
    assert row["status"] == "not_sent"
    assert row["slo_met"] is False
    assert row["cost_usd"] == 0.0
    assert (row["quality"], row["quality_status"]) == (None, "missing")
    for name in (
        "sent_s",
        "decided_s",
        "first_token_s",
        "done_s",
        "instance",
        "tier",
        "model",
        "decision_mode",
    ):
        assert row[name] is None


def test_a_failure_amid_an_answer_costs_what_was_delivered_and_has_no_label() -> None:
    broken = replace(ok(1), status="error", fault="cut", finish_reason=None, output_tokens=6, done_s=1.5)
    row = only(reading(), broken)
    assert (row["status"], row["quality"], row["quality_status"]) == ("error", None, "missing")
    assert row["cost_usd"] == pytest.approx((50 + 6) * 0.06 / 1e6)
    assert row["done_s"] == 1.5  # when it failed, not its last token


@pytest.mark.parametrize("missing", [None, "elsewhere/0"])
def test_an_instance_that_is_not_the_pools_is_nobody(missing: str | None) -> None:
    row = only(reading(), ok(0, missing))
    assert (row["instance"], row["tier"], row["model"], row["cost_usd"]) == (None, None, None, 0.0)


def test_tokens_that_the_server_did_not_count_are_estimated_and_their_source_is_told() -> None:
    read = reading()
    row = only(read, ok(5, input_tokens=None, output_tokens=10, tokens_source="chunks"))
    estimate = int(read.context.prompts.input_tokens[5])
    assert (row["input_tokens"], row["tokens_source"]) == (estimate, "chunks")
    assert row["cost_usd"] == pytest.approx((estimate + 10) * 0.06 / 1e6)


@pytest.mark.parametrize("counted", [None, 0, 10**6, 2**31 - 1])
def test_a_count_that_no_prompt_can_have_sets_no_cost_and_is_told(counted: int | None) -> None:
    read = reading()
    (answer,) = read.answers([ok(5, input_tokens=counted, output_tokens=10)])
    assert answer.result.usage_disagrees
    estimate = int(read.context.prompts.input_tokens[5])
    row = only(read, ok(5, input_tokens=counted, output_tokens=10))
    assert row["input_tokens"] == estimate
    assert row["cost_usd"] == pytest.approx((estimate + 10) * 0.06 / 1e6)


def test_a_cut_answer_has_no_label_unless_it_is_the_grids_to_the_letter() -> None:
    read = reading(texts={("p000", "small"): f"  {TEXT}\n", ("p001", "small"): "Another."})
    read.context.prompts.score[:2] = 0.5
    assert only(read, ok(0, finish_reason="length"))["quality"] == 0.5
    cut = only(read, ok(1, finish_reason="length"))
    assert (cut["quality"], cut["quality_status"]) == (None, "truncated")
    assert only(read, ok(1))["quality"] == 0.5


def test_a_score_of_zero_is_one_and_a_missing_one_is_none() -> None:
    read = reading()
    read.context.prompts.score[0] = 0.0
    read.context.prompts.score[1] = np.nan
    zero, missing = only(read, ok(0)), only(read, ok(1))
    assert (zero["quality"], zero["quality_status"]) == (0.0, "ok")
    assert (missing["quality"], missing["quality_status"]) == (None, "missing")


@pytest.mark.parametrize(
    ("cap", "free_cap", "tokens", "reason", "exhausted"),
    [
        (20, 400, 20, "length", True),  # the budget's cap bound
        (400, 400, 20, "length", True),  # cut before any cap: it would have cost more
        (20, 20, 20, "length", False),  # the workload's own cap
        (20, 400, 12, "stop", False),
    ],
)
def test_a_budget_ended_an_answer(cap: int, free_cap: int, tokens: int, reason: str, exhausted: bool) -> None:
    trace = {"max_tokens": cap, "max_tokens_without_budget": free_cap}
    result = ok(0, output_tokens=tokens, finish_reason=reason, headers={"x-rbx-trace": json.dumps(trace)})
    assert only(reading(columns={"budget_usd": [1e-5] * 8}), result)["exhausted"] is exhausted
    assert only(reading(), result)["exhausted"] is False  # it had none


@pytest.mark.parametrize(
    ("target_s", "e2e_s", "met"),
    [
        (0.102, None, True),
        (0.1, None, False),
        (math.inf, 0.19, False),
        (math.inf, 0.2, True),
        (0.05, 9.0, False),
    ],
)
def test_targets_count_from_the_scheduled_send(target_s: float, e2e_s: float | None, met: bool) -> None:
    read = reading(columns={"ttft_target_s": [target_s] * 8}, workload={"slo": {"e2e_s": e2e_s}})
    assert only(read, ok(0))["slo_met"] is met


def test_without_a_target_nothing_is_met_or_missed() -> None:
    assert only(reading(), ok(0))["slo_met"] is None


def test_stamps_chunks_and_the_answers_hash_are_kept() -> None:
    read = reading(texts={("p000", "small"): TEXT})
    rows = read.live_rows(
        answered(
            read,
            ok(
                1,
                text="",
                first_token_s=None,
                first_answer_s=None,
                last_token_s=None,
                chunk_s=(),
                chunk_tokens=(),
            ),
            ok(0, cached_tokens=7, reasoning="Hm."),
        )
    )
    table = live_table(rows)
    assert table.schema.equals(LIVE)
    first, second = table.to_pylist()
    assert (first["request"], second["request"]) == (0, 1)
    assert first["text_sha256"] == hashlib.sha256(TEXT.encode()).hexdigest()
    assert first["text_matches"] is True
    assert first["chunk_tokens"] == [2] * 10
    assert first["chunk_s"] == pytest.approx([0.101 + 0.01 * k for k in range(10)], abs=1e-6)
    assert first["closed_s"] == pytest.approx(0.196)
    assert (first["cached_tokens"], first["attempts"], first["gateway_mode"]) == (7, 1, "policy")
    assert second["text_matches"] is None  # the grid has no text to compare with
    assert second["text_sha256"] == hashlib.sha256(b"").hexdigest()


def test_expected_tokens_are_the_grids_within_the_cap_or_the_cap_itself() -> None:
    read = reading()
    grid = int(read.context.prompts.output_tokens[2, 0])
    capped = ok(2, headers={"x-rbx-trace": json.dumps({"max_tokens": grid - 1})})
    (free, bound) = answered(read, ok(2)) + answered(read, capped)
    assert read.asked_tokens(free) == min(grid, 400)
    assert read.asked_tokens(bound) == min(grid - 1, 400)
    to_the_cap = reading(ignores_eos=True)
    assert [to_the_cap.asked_tokens(each) for each in answered(to_the_cap, ok(2), not_sent(1, 1.0))] == [
        None,
        400,
    ]


def test_served_text_is_kept_or_left_out_and_survives_what_no_file_can_hold() -> None:
    read = reading()
    answers = answered(read, ok(0), ok(1, text="odd \ud83d"), replace(ok(2), status="error"))
    kept = read.served(answers, keep_text=True).to_pylist()
    assert [(row["request"], row["response"], row["model"]) for row in kept] == [
        (0, TEXT, "small"),
        (1, "odd ?", "small"),
    ]
    assert [row["response"] for row in read.served(answers, keep_text=False).to_pylist()] == [None, None]
