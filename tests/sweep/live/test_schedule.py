"""What the client is told to send."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from rbx.config.live import OURS, Live
from rbx.sweep.live.schedule import Asking
from rbx.sweep.workload import Arriving
from tests.sweep.scenes import experiment

PROMPTS = ["first", "zweite Frage", "half a pair \ud83d"]


def live_of(**changes: Any) -> Live:
    target = {"kind": "gateway", "url": "http://127.0.0.1:8200"}
    return Live.model_validate({"target": target, "body": {"temperature": 0.5, "top_k": 3}, **changes})


def asking(*, traced: bool = True, extra: dict[str, Any] | None = None, **changes: Any) -> Asking:
    asked = experiment(workload={"slo": {"ttft_s": 1.0, "e2e_s": 12.5}, "max_output_tokens": 77})
    return Asking.of(asked, live_of(**changes), "auto", traced=traced, extra=extra or {})


ARRIVING = Arriving(
    prompt=np.array([1, 0, 2, 1]),
    scheduled_s=np.array([0.0, 0.25, 0.25, 3.5]),
    budget_usd=np.array([math.inf, 1.25e-05, math.inf, 3e-4]),
    ttft_target_s=np.array([0.155, math.inf, 1.12, 0.2]),
)


def test_each_request_leaves_on_schedule_with_its_prompt_and_limits() -> None:
    requests = asking(extra={"cache_salt": "s"}).requests(ARRIVING, PROMPTS)
    assert [each.request for each in requests] == [0, 1, 2, 3]
    assert [each.scheduled_s for each in requests] == [0.0, 0.25, 0.25, 3.5]
    assert {each.path for each in requests} == {"/chat/completions"}
    bodies = [json.loads(each.body) for each in requests]
    assert [body["messages"][0]["content"] for body in bodies] == [
        "zweite Frage",
        "first",
        "half a pair ?",
        "zweite Frage",
    ]
    for body in bodies:
        assert {key: value for key, value in body.items() if key != "messages"} == {
            "model": "auto",
            "temperature": 0.5,
            "top_k": 3,
            "max_tokens": 77,
            "stream": True,
            "stream_options": {"include_usage": True},
            "cache_salt": "s",
        }


def test_budgets_and_targets_go_to_a_gateway_of_ours_alone() -> None:
    told = [dict(each.headers) for each in asking().requests(ARRIVING, PROMPTS)]
    both = {"x-rbx-trace": "1", "x-slo-e2e-ms": "12500"}
    assert told == [
        {**both, "x-slo-ttft-ms": "155"},
        {**both, "x-rbx-budget-usd": "1.25e-05"},
        {**both, "x-slo-ttft-ms": "1120"},
        {**both, "x-rbx-budget-usd": "0.0003", "x-slo-ttft-ms": "200"},
    ]
    assert {each.headers for each in asking(traced=False).requests(ARRIVING, PROMPTS)} == {()}


def test_completions_take_the_prompt_bare() -> None:
    first = asking(api="completions").requests(ARRIVING, PROMPTS)[0]
    assert first.path == "/completions"
    assert json.loads(first.body)["prompt"] == "zweite Frage"
    assert "messages" not in json.loads(first.body)


def test_a_warm_up_keeps_equal_gaps_and_asks_for_nothing_else() -> None:
    requests = asking().warm_up(PROMPTS, 4.0, 5)
    assert [each.scheduled_s for each in requests] == [0.0, 0.25, 0.5, 0.75, 1.0]
    contents = [json.loads(each.body)["messages"][0]["content"] for each in requests]
    assert contents == ["first", "zweite Frage", "half a pair ?", "first", "zweite Frage"]
    assert {name for each in requests for name, _ in each.headers} == {"x-rbx-trace", "x-slo-e2e-ms"}


@pytest.mark.parametrize("key", OURS)
def test_a_body_may_not_take_the_place_of_what_the_client_sets(key: str) -> None:
    with pytest.raises(ValueError, match=f"{key} is set by rbx"):
        live_of(body={key: 1})


def test_a_system_message_stands_before_the_prompt() -> None:
    first = json.loads(asking(system="Be brief.").requests(ARRIVING, PROMPTS)[0].body)
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert first["messages"][0]["content"] == "Be brief."


def test_mock_servers_are_told_the_grids_lengths_of_each_prompt() -> None:
    lengths = [{"small": 3, "large": 30}, {"small": 5, "large": 50}, {"small": 7, "large": 70}]
    told = [
        json.loads(each.body)["rbx_output_tokens_by_model"]
        for each in asking().requests(ARRIVING, PROMPTS, lengths)
    ]
    assert told == [lengths[row] for row in (1, 0, 2, 1)]
