"""What answers come to, from their bytes and the times at which they came: the golden table.

Expected figures are worked out by hand from the script of each row, and none of them depends on a clock.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.load.client.answer import Answer
from tests.load.client.wording import DONE, PING, ROLE, STOP, delta, event, last_usage, usage

Step = tuple[int, bytes | str]  # at so many ms come bytes; "end", "reset" and "timeout" end it


class Outcome(NamedTuple):
    """Times in ms."""

    fault: str | None = None
    first: int | None = None
    answer: int | None = None
    last: int | None = None
    done: int | None = None
    chunks: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    output: int | None = None
    reason: str | None = None


def played(steps: Sequence[Step], *, stream: bool = True, status: int = 200, kind: str = "") -> Answer:
    answer = Answer(stream=stream)
    answer.begin(status, kind or ("text/event-stream" if stream else "application/json"))
    for at_ms, step in steps:
        at_s = at_ms / 1000.0
        if isinstance(step, bytes):
            answer.feed(step, at_s)
        elif step == "timeout":
            answer.give_up("stalled", "no token", at_s)
        else:
            answer.end(at_s, "connection reset" if step == "reset" else None)
    return answer


def outcome(answer: Answer) -> Outcome:
    def ms(at_s: float | None) -> int | None:
        return None if at_s is None else round(at_s * 1000.0)

    assert answer.over
    return Outcome(
        answer.fault,
        ms(answer.first_token_s),
        ms(answer.first_answer_s),
        ms(answer.chunk_s[-1] if answer.chunk_s else None),
        ms(answer.done_s),
        tuple(round(at_s * 1000.0) for at_s in answer.chunk_s),
        tuple(answer.chunk_tokens),
        answer.counted_tokens,
        answer.finish_reason,
    )


def content(text: str, **more: Any) -> bytes:
    return delta({"content": text}, **more)


def thought(text: str) -> bytes:
    return delta({"reasoning_content": text})


CALL = {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}
SIX = [content("abcd", **usage(4 * k)) for k in range(1, 7)]
SPLIT = content("ü🌍")
AT = SPLIT.index("🌍".encode()) + 2
GOLDEN: dict[str, tuple[list[Step], Outcome]] = {
    "first events without a token": (
        [(10, ROLE), (20, content("")), (30, PING), (500, content("a")), (600, STOP), (601, DONE)],
        Outcome(None, 500, 500, 500, 601, (500,), (1,), None, "stop"),
    ),
    "reasoning alone, until the length ran out": (
        [
            (100, thought("a")),
            (150, thought("b")),
            (200, delta({}, "length")),
            (210, last_usage(2)),
            (211, DONE),
        ],
        Outcome(None, 100, None, 150, 211, (100, 150), (1, 1), 2, "length"),
    ),
    "the answer after reasoning, in the other spelling": (
        [(100, delta({"reasoning": "r"})), (300, content("a")), (400, STOP), (410, DONE)],
        Outcome(None, 100, 300, 300, 410, (100, 300), (1, 1), None, "stop"),
    ),
    "a tool call is output": (
        [(70, delta(CALL)), (90, delta({}, "tool_calls")), (91, DONE)],
        Outcome(None, 70, 70, 70, 91, (70,), (1,), None, "tool_calls"),
    ),
    "24 tokens in one chunk": (
        [(80, content("x" * 24)), (90, STOP), (95, last_usage(24)), (96, DONE)],
        Outcome(None, 80, 80, 80, 96, (80,), (1,), 24, "stop"),
    ),
    "24 tokens in six chunks, counted in each": (
        [*((100 * k, SIX[k - 1]) for k in range(1, 7)), (650, STOP), (660, last_usage(24)), (661, DONE)],
        Outcome(None, 100, 100, 600, 661, (100, 200, 300, 400, 500, 600), (4,) * 6, 24, "stop"),
    ),
    "a chunk cut inside a character comes with its last byte": (
        [(50, SPLIT[:AT]), (90, SPLIT[AT:]), (100, STOP), (101, DONE)],
        Outcome(None, 90, 90, 90, 101, (90,), (1,), None, "stop"),
    ),
    "two chunks in one read have one time": (
        [(50, content("a") + content("b")), (60, STOP + DONE)],
        Outcome(None, 50, 50, 50, 60, (50, 50), (1, 1), None, "stop"),
    ),
    "no text, tokens by usage": (
        [(40, delta({}, "stop")), (50, last_usage(3)), (51, DONE)],
        Outcome(None, None, None, None, 51, (), (), 3, "stop"),
    ),
    "no text, no reason, tokens by usage": (
        [(50, last_usage(3)), (51, DONE)],
        Outcome(None, None, None, None, 51, (), (), 3, None),
    ),
    "latency ends with the last token, not with [DONE]": (
        [(50, content("a")), (60, STOP), (900, DONE)],
        Outcome(None, 50, 50, 50, 900, (50,), (1,), None, "stop"),
    ),
    "no [DONE]": (
        [(50, content("a")), (60, STOP), (70, last_usage(1)), (75, "end")],
        Outcome(None, 50, 50, 50, 75, (50,), (1,), 1, "stop"),
    ),
    "no [DONE] and no reason, but usage at the end": (
        [(50, content("a")), (70, last_usage(1)), (75, "end")],
        Outcome(None, 50, 50, 50, 75, (50,), (1,), 1, None),
    ),
    "no reason, but [DONE]": (
        [(50, content("a")), (51, DONE)],
        Outcome(None, 50, 50, 50, 51, (50,), (1,), None, None),
    ),
    "lost after the reason": (
        [(50, content("a")), (60, STOP), (99, "reset")],
        Outcome(None, 50, 50, 50, 60, (50,), (1,), None, "stop"),
    ),
    "the server does not end a stream that is whole": (
        [(50, content("a")), (60, STOP), (9000, "timeout")],
        Outcome(None, 50, 50, 50, 60, (50,), (1,), None, "stop"),
    ),
    "[DONE] without its blank line": (
        [(50, content("a")), (60, b"data: [DONE]"), (70, "end")],
        Outcome(None, 50, 50, 50, 70, (50,), (1,), None, None),
    ),
    "CRLF, an event over two lines, comments between": (
        [
            (50, b'data: {"choices": [{"index": 0,\r\ndata: "delta": {"content": "a"}}]}\r\n\r\n'),
            (60, b": ping\r\n\r\n"),
            (70, b"data: [DONE]\r\n\r\n"),
        ],
        Outcome(None, 50, 50, 50, 70, (50,), (1,), None, None),
    ),
    "cut, with running counts": (
        [(50, content("a", **usage(1))), (60, content("b", **usage(2))), (70, "end")],
        Outcome("cut", 50, 50, 60, 70, (50, 60), (1, 1), 2, None),
    ),
    "reset amid the answer": (
        [(50, content("a")), (70, "reset")],
        Outcome("cut", 50, 50, 50, 70, (50,), (1,), None, None),
    ),
    "an error object in a success": (
        [(50, content("a")), (60, event({"error": {"message": "dead"}})), (70, DONE)],
        Outcome("error_event", 50, 50, 50, 60, (50,), (1,), None, None),
    ),
    "event: error": (
        [(60, b"event: error\ndata: dead\n\n")],
        Outcome("error_event", None, None, None, 60),
    ),
    "a request that vLLM gave up": (
        [(50, content("a")), (60, delta({}, "abort")), (61, DONE)],
        Outcome("error_event", 50, 50, 50, 61, (50,), (1,), None, "abort"),
    ),
    "an event that breaks off": (
        [(50, content("a")), (60, b'data: {"choi\n\n')],
        Outcome("malformed", 50, 50, 50, 60, (50,), (1,), None, None),
    ),
    "stalled": (
        [(50, content("a")), (9000, "timeout")],
        Outcome("stalled", 50, 50, 50, 9000, (50,), (1,), None, None),
    ),
    "nothing but [DONE]": ([(50, DONE)], Outcome("empty", None, None, None, 50)),
    "nothing": ([(50, "end")], Outcome("empty", None, None, None, 50)),
    "the role alone": ([(40, ROLE), (50, DONE)], Outcome("empty", None, None, None, 50)),
    "usage null in every chunk": (
        [(40, content("a", usage=None)), (50, delta({}, "stop", usage=None)), (51, DONE)],
        Outcome(None, 40, 40, 40, 51, (40,), (1,), None, "stop"),
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_streams(name: str) -> None:
    steps, expected = GOLDEN[name]
    assert outcome(played(steps)) == expected


PLAIN = {
    "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}],
    **usage(2, prompt_tokens_details={"cached_tokens": 4}),
}


def document(body: Any) -> bytes:
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (document(PLAIN), Outcome(None, 70, 70, 70, 70, (70,), (2,), 2, "stop")),
        (
            document({**PLAIN, "usage": None}),
            Outcome(None, 70, 70, 70, 70, (70,), (1,), None, "stop"),
        ),
        (document({"error": {"message": "dead"}}), Outcome("error_event", done=70)),
        (document({"object": "error", "message": "dead", "code": 400}), Outcome("error_event", done=70)),
        (document({"choices": []}), Outcome("empty", done=70)),
        (b'{"choices": [', Outcome("malformed", done=70)),
        (b"", Outcome("malformed", done=70)),
    ],
)
def test_plain_answers(body: bytes, expected: Outcome) -> None:
    steps: list[Step] = [(50, body[:20]), (60, body[20:]), (70, "end")]
    assert outcome(played(steps, stream=False)) == expected


def test_a_plain_answer_that_breaks_off_is_cut_however_much_of_it_came() -> None:
    assert outcome(played([(50, document(PLAIN)), (60, "reset")], stream=False)).fault == "cut"


def test_a_plain_answer_to_who_asked_for_a_stream_is_none() -> None:
    assert (
        outcome(played([(1, document(PLAIN)), (2, "end")], kind="application/json; a=b")).fault == "malformed"
    )


@pytest.mark.parametrize(("status", "fault"), [(200, None), (206, None), (301, "status"), (500, "status")])
def test_every_2xx_is_a_success_and_nothing_else(status: int, fault: str | None) -> None:
    answer = played([(1, content("a") + STOP + DONE), (2, "end")], status=status)
    assert answer.fault == fault
    assert (answer.detail is None) == (fault is None)
    assert answer.detail is None or str(status) in answer.detail


def test_a_refusal_is_told_with_its_beginning() -> None:
    answer = played([(1, b"no " * 100_000)], status=429, kind="text/plain")
    assert answer.detail == "HTTP 429: " + ("no " * 100)


def test_counts_that_cant_be_true_are_told() -> None:
    def disagrees(*events: bytes) -> bool:
        return played([(1, b"".join(events) + DONE)]).usage_disagrees

    five = [content(letter) for letter in "abcde"]
    assert not disagrees(*five)
    assert not disagrees(*five, last_usage(5))
    assert not disagrees(*five, last_usage(24))
    assert disagrees(*five, last_usage(4))
    assert disagrees(*five, last_usage(0))
    assert disagrees(content("a", **usage(3)), content("b", **usage(2)), STOP)
    assert disagrees(content("a", **usage(3)), last_usage(2))


def bounded(most_tokens: int, *events: bytes) -> Answer:
    answer = Answer(stream=True, most_tokens=most_tokens)
    answer.begin(200, "text/event-stream")
    answer.feed(b"".join(events) + DONE, 1.0)
    assert answer.over
    return answer


def test_a_count_far_beyond_what_was_asked_for_is_none() -> None:
    for told in (201, 2**31 - 1):
        for counted in (last_usage(told), delta({}, **usage(told))):
            answer = bounded(100, content("a"), content("b"), STOP, counted)
            assert (answer.counted_tokens, answer.received_tokens) == (None, 2)
            assert answer.usage_disagrees
    over = bounded(100, content("a"), STOP, last_usage(101))  # such as an end token that was counted
    assert (over.counted_tokens, over.usage_disagrees) == (101, True)
    full = bounded(100, content("a"), STOP, last_usage(100))
    assert (full.counted_tokens, full.usage_disagrees) == (100, False)


def test_a_plain_answer_is_not_longer_than_asked_for_either() -> None:
    answer = Answer(stream=False, most_tokens=100)
    answer.begin(200, "application/json")
    answer.feed(json.dumps({"choices": [{"message": {"content": "a"}}], **usage(10**9)}).encode(), 1.0)
    answer.end(2.0)
    assert (answer.fault, answer.counted_tokens, answer.received_tokens) == (None, None, 1)
    assert answer.usage_disagrees


def test_counts_of_choices_that_add_up_to_no_count_are_none() -> None:
    def said(choice: int) -> bytes:
        return event({"choices": [{"index": choice, "delta": {"content": "a"}}], **usage(2**31 - 1)})

    answer = played([(1, said(0) + said(1) + STOP + DONE)])
    assert (answer.fault, answer.counted_tokens, answer.received_tokens) == (None, None, 2)


def test_a_finish_reason_may_be_half_a_character_or_a_book() -> None:
    half = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"\\ud800"}]}\n\n'
    answer = played([(1, half + DONE)])
    assert (answer.fault, answer.finish_reason) == (None, "\ufffd")
    book = played([(1, delta({"content": "a"}, "x" * 100_000) + DONE)])
    assert len(book.finish_reason or "") == 300


def test_every_choice_must_finish() -> None:
    def said(choice: int, reason: str | None) -> bytes:
        return event({"choices": [{"index": choice, "delta": {"content": "a"}, "finish_reason": reason}]})

    for ends, fault in (((0,), "cut"), ((0, 1), None)):
        answer = Answer(stream=True, choices=2)
        answer.begin(200, "text/event-stream")
        for choice in ends:
            answer.feed(said(choice, "stop"), 1.0)
        answer.end(2.0)
        assert answer.fault == fault


def test_half_a_character_from_the_server_costs_that_character_only() -> None:
    pair = [
        b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % half
        for half in (b"\\ud83c", b"\\udf0d")
    ]
    assert played([(1, pair[0] + pair[1] + DONE)]).text == "🌍"
    assert played([(1, pair[0] + content("a") + DONE)]).text == "\ufffda"


def test_the_gateway_tells_a_streams_cost_in_a_comment() -> None:
    told = b": x-rbx-cost-usd=0.00012 x-rbx-budget-exhausted=true\n\n"
    answer = played([(1, content("a") + STOP + told + DONE)])
    assert answer.told_headers == {"x-rbx-cost-usd": "0.00012", "x-rbx-budget-exhausted": "true"}


@given(
    st.sampled_from(sorted(GOLDEN)),
    st.lists(st.integers(0, 100_000), max_size=6),
)
def test_how_the_network_cuts_a_stream_changes_no_verdict_and_no_count(name: str, cuts: list[int]) -> None:
    steps = GOLDEN[name][0]
    stream = b"".join(step for _, step in steps if isinstance(step, bytes))
    ends = [(len(stream) + 1, step) for _, step in steps if isinstance(step, str)] or [
        (len(stream) + 1, "end")
    ]
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    parts: list[Step] = [(start, stream[start:end]) for start, end in pairwise(places)]
    whole, cut = outcome(played([(0, stream), *ends])), outcome(played([*parts, *ends]))
    assert (cut.fault, cut.tokens, cut.output, cut.reason) == (
        whole.fault,
        whole.tokens,
        whole.output,
        whole.reason,
    )
    assert list(cut.chunks) == sorted(cut.chunks)
