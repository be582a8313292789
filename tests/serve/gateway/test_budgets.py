"""Budgets: the cap, the cut of a stream, and what is told of them. 0.1 and 0.2 USD per million tokens."""

from __future__ import annotations

import orjson
import pytest

from tests.serve.gateway.serving import serving

IN, OUT = 0.1e-6, 0.2e-6


def events(content: bytes) -> list[bytes]:
    return [event for event in content.split(b"\n\n") if event]


def said(content: bytes) -> tuple[int, str | None, bool, list[str]]:
    """Tokens of text, finish reason, whether it ended with [DONE], and the comments."""
    tokens, reason, comments = 0, None, []
    for event in events(content):
        if event.startswith(b":"):
            comments.append(event.decode())
        elif event != b"data: [DONE]":
            for choice in orjson.loads(event[6:])["choices"]:
                tokens += bool(choice["delta"].get("content"))
                reason = choice["finish_reason"] or reason
    return tokens, reason, events(content)[-1] == b"data: [DONE]", comments


def test_a_budget_caps_the_answer_and_that_is_told() -> None:
    with serving(tokens=100, input_tokens=5) as place:
        budget = 5 * IN + 7 * OUT  # the prompt's 18 characters are 5 tokens
        answer = place.chat({"x-rbx-budget-usd": f"{budget:.12g}"})
        assert next(i for i in place.instances if i.bodies).bodies[0]["max_tokens"] == 7
        assert answer.json()["usage"]["completion_tokens"] == 7
        assert answer.headers["x-rbx-budget-exhausted"] == "true"
        assert float(answer.headers["x-rbx-cost-usd"]) == pytest.approx(budget)
        free = place.chat({"x-rbx-budget-usd": "1"})
        assert free.headers["x-rbx-budget-exhausted"] == "false"
        assert float(free.headers["x-rbx-cost-usd"]) == pytest.approx(5 * IN + 100 * OUT)
        own_cap = place.chat({"x-rbx-budget-usd": "1"}, max_tokens=3)
        assert own_cap.headers["x-rbx-budget-exhausted"] == "false"
        assert "x-rbx-budget-exhausted" not in place.chat().headers
        page = place.client.get("/metrics").text
        assert 'rbx_budgets_total{exhausted="true"} 1.0' in page
        assert 'rbx_budgets_total{exhausted="false"} 2.0' in page


def test_a_tiny_budget_gets_one_token_of_the_cheapest() -> None:
    with serving(tokens=100) as place:
        answer = place.chat(rbx={"budget_usd": 1e-12})
        assert answer.status_code == 200
        assert answer.json()["usage"]["completion_tokens"] == 1
        assert answer.headers["x-rbx-budget-exhausted"] == "true"


def test_a_stream_capped_by_its_budget_ends_as_the_server_ends_it() -> None:
    with serving(tokens=100, input_tokens=5) as place:
        answer = place.chat({"x-rbx-budget-usd": f"{5 * IN + 7 * OUT:.12g}"}, stream=True)
        tokens, reason, done, comments = said(answer.content)
        assert (tokens, reason, done) == (7, "length", True)
        assert len(comments) == 1
        assert "x-rbx-budget-exhausted=true" in comments[0]
        assert sum(instance.cancelled for instance in place.instances) == 0


def test_a_stream_is_cut_where_the_prompt_turns_out_longer_than_estimated() -> None:
    """18 characters are estimated at 5 tokens; the server counts 11, which leaves 4 of 7 output tokens."""
    with serving(tokens=100, input_tokens=11) as place:
        budget = 5 * IN + 7 * OUT
        for usage in (False, True):
            answer = place.chat(
                {"x-rbx-budget-usd": f"{budget:.12g}"}, stream=True, stream_options={"include_usage": usage}
            )
            tokens, reason, done, comments = said(answer.content)
            assert (tokens, reason, done) == (4, "length", True)
            assert 11 * IN + tokens * OUT <= budget * (1 + 1e-9) < 11 * IN + (tokens + 1) * OUT
            assert "x-rbx-budget-exhausted=true" in comments[0]
            last = orjson.loads(events(answer.content)[-3][6:])
            assert last["id"] == "c1"
            if usage:
                assert last["usage"] == {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15}
            else:
                assert last["choices"][0]["finish_reason"] == "length"
        place.settled()
        assert sum(instance.cancelled for instance in place.instances) == 2
        assert place.gateway.breakers[0].state == "closed"


def test_a_stream_within_its_budget_is_not_touched() -> None:
    with serving(tokens=6) as place:
        answer = place.chat({"x-rbx-budget-usd": "1"}, stream=True)
        tokens, reason, done, comments = said(answer.content)
        assert (tokens, reason, done) == (6, "stop", True)
        assert "x-rbx-budget-exhausted=false" in comments[0]
