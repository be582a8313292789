"""Which replies are judgements, and that nothing else ever becomes one."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.label.judge.reply import (
    RAW_CHARACTERS,
    REASON_CHARACTERS,
    JudgeFault,
    Judgement,
    Reply,
    read_judgement,
)

GOOD = '{"reason": "right", "score": 7}'

ILL_FORMED = {
    "prose": ("I would give this answer a 7 out of 10.", "no JSON object"),
    "empty": ("", "is empty"),
    "white space": (" \n\t", "is empty"),
    "cut before its end": ('{"reason": "right", "score": 1', "cut or malformed"),
    "cut within its reason": ('{"score": 7, "reason": "ri', "cut or malformed"),
    "cut around a whole object": ('{"first": {"reason": "right", "score": 7}, "sec', "cut or malformed"),
    "eleven": ('{"reason": "right", "score": 11}', "not from 0 to 10"),
    "just above ten": ('{"reason": "right", "score": 10.0001}', "not from 0 to 10"),
    "minus one": ('{"reason": "right", "score": -1}', "not from 0 to 10"),
    "minus one in words": ('{"reason": "right", "score": "-1"}', "not from 0 to 10"),
    "eight of ten": ('{"reason": "right", "score": "8/10"}', "no number"),
    "a word": ('{"reason": "right", "score": "seven"}', "no number"),
    "digits of another script": ('{"reason": "right", "score": "\u0667"}', "no number"),
    "NaN": ('{"reason": "right", "score": NaN}', "not from 0 to 10"),
    "infinity": ('{"reason": "right", "score": Infinity}', "not from 0 to 10"),
    "minus infinity": ('{"reason": "right", "score": -Infinity}', "not from 0 to 10"),
    "too large for a float": ('{"reason": "right", "score": 1e999}', "not from 0 to 10"),
    "five thousand digits": ('{"reason": "right", "score": ' + "9" * 5000 + "}", ""),
    "true": ('{"reason": "right", "score": true}', "no number"),
    "null": ('{"reason": "right", "score": null}', "no number"),
    "a list as score": ('{"reason": "right", "score": [7]}', "no number"),
    "no score": ('{"reason": "right"}', "no score"),
    "no reason": ('{"score": 7}', "no reason"),
    "reason is null": ('{"reason": null, "score": 7}', "no text"),
    "reason is a list": ('{"reason": ["right"], "score": 7}', "no text"),
    "another case": ('{"Reason": "right", "Score": 7}', "no score"),
    "two that differ": (GOOD + '\n{"reason": "right", "score": 3}', "differ"),
    "a second that is none": (GOOD + ' {"note": 1}', "differ"),
    "a score given twice": ('{"reason": "right", "score": 3, "score": 7}', "cut or malformed"),
    "a list of one": (f"[{GOOD}]", "list"),
    "a list whose last it is": (f"[1, {GOOD}]", "list"),
    "a list whose first it is": (f"[{GOOD}, 1]", "list"),
    "a list around it": (f"[1, {GOOD}, 2]", "list"),
    "a list around two": (f"[1, {GOOD}, 2, {GOOD}, 3]", "list"),
    "the end of a list": (f"{GOOD}, 2]", "list"),
    "a list in a fence": (f"```json\n[\n1,\n{GOOD}\n,\n2\n]\n```", "list"),
    "a thought without end": (f"<think> maybe {GOOD} or higher", "not closed"),
    "a second thought without end": (f"<think>a</think>{GOOD}<think>or", "not closed"),
    "an object thought aloud": (f"{GOOD}</think>{GOOD.replace('7', '10')}", "before </think>"),
    "a thought and no judgement": (f"{GOOD}</think>", "before </think>"),
    "a judgement in a thought alone": (f"<think>{GOOD}</think>", "no JSON object"),
    "40,000 and another": (GOOD * 20_000 + '{"a": 1}', "differ"),
    "longer than any judgement": (GOOD + " " * (1 << 20), "longer than"),
    "a bare number": ("7", "no JSON object"),
    "a JSON string": (json.dumps(GOOD), "cut or malformed"),
    "single quotes": ("{'reason': 'right', 'score': 7}", "cut or malformed"),
    "a comma too many": ('{"reason": "right", "score": 7,}', "cut or malformed"),
    "braces in prose": ("Set {a, b}: " + GOOD, "cut or malformed"),
    "a schema": ('{"score": {"type": "number"}, "reason": "string"}', "no number"),
    "nested without end": ('{"a":' * 100_000, "cut or malformed"),
}


@pytest.mark.parametrize(("text", "why"), ILL_FORMED.values(), ids=ILL_FORMED)
def test_all_else_is_a_fault_that_keeps_the_text(text: str, why: str) -> None:
    with pytest.raises(JudgeFault) as caught:
        read_judgement(Reply(text, "stop"))
    assert why in caught.value.why
    assert caught.value.raw == text[:RAW_CHARACTERS]
    assert not caught.value.unreached


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        '{"score": 7.0, "reason": "right"}',
        '{"score": "7", "reason": "right"}',
        '{"score": " 7.0 ", "reason": "right", "confidence": "high"}',
        f"```json\n{GOOD}\n```",
        f"Here is my judgement:\n\n{GOOD}\n\nI hope it helps.",
        f"{GOOD}\n{GOOD}",
        f"[Judgement] {GOOD} [1]",
        f"Reasoning that the template opened, of [1 and [2.</think>\n{GOOD}",
        f"<think>{GOOD.replace('7', '3')}</think>{GOOD}",
        GOOD * 30_000,
        f"<think>Between {{6}} and {{8}}: [</think>\n{GOOD}",
    ],
)
def test_one_clear_object_is_a_judgement(text: str) -> None:
    assert read_judgement(Reply(text, "stop")) == Judgement(7.0, "right")


@pytest.mark.parametrize(
    ("written", "score"), [("0", 0.0), ("-0", 0.0), ("10", 10.0), ('"0"', 0.0), ("0.5", 0.5)]
)
def test_the_bounds_are_scores(written: str, score: float) -> None:
    found = read_judgement(Reply(f'{{"score": {written}, "reason": ""}}')).score
    assert (found, math.copysign(1.0, found)) == (score, 1.0)


def test_a_reply_cut_at_its_limit_is_none_even_where_it_reads_well() -> None:
    with pytest.raises(JudgeFault, match="cut at max_tokens"):
        read_judgement(Reply(GOOD, "length"))


def test_text_that_no_file_can_hold_is_mended() -> None:
    found = read_judgement(Reply('{"reason": "a\\ud800b", "score": 7}'))
    assert found.reason.encode() == b"a?b"


@pytest.mark.parametrize("value", ['{"reason": "a", "score": %s}', '{"x": %s}{"x": %s}'])
def test_no_depth_of_nesting_is_another_error_than_a_fault(value: str) -> None:
    for depth in range(300, 1100):
        deep = "[" * depth + "]" * depth
        assert isinstance(read(value.replace("%s", deep)), JudgeFault)


def test_a_reason_and_a_raw_text_are_bounded() -> None:
    found = read_judgement(Reply(json.dumps({"score": 5, "reason": "z" * 500_000})))
    assert found == Judgement(5.0, "z" * REASON_CHARACTERS)


def test_a_thought_within_a_reason_is_text() -> None:
    found = read_judgement(Reply('{"reason": "it leaves <think> open, [1, and }", "score": 2}'))
    assert found == Judgement(2.0, "it leaves <think> open, [1, and }")


def read(text: str) -> Judgement | JudgeFault:
    try:
        return read_judgement(Reply(text))
    except JudgeFault as fault:
        return fault


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["score", "reason", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.text()
    | st.binary().map(lambda raw: raw.decode("utf-8", "replace"))
    | JSON.map(json.dumps)
    | st.tuples(st.text(alphabet='{}[],:"` \n', max_size=6), JSON.map(json.dumps)).map("".join)
)
def test_no_text_at_all_gives_a_score_out_of_range_or_another_error(text: str) -> None:
    found = read(text)
    if isinstance(found, JudgeFault):
        assert found.raw is not None
        found.raw.encode()
    else:
        assert 0.0 <= found.score <= 10.0
        found.reason.encode()


@given(JSON, st.text())
def test_an_object_is_a_judgement_just_where_its_score_is_a_number_from_0_to_10(
    score: Any, reason: str
) -> None:
    expected = isinstance(score, int | float) and not isinstance(score, bool) and 0 <= score <= 10
    if isinstance(score, str):
        expected = score.strip().isascii() and score.strip().isdigit() and 0 <= int(score) <= 10
    found = read(json.dumps({"score": score, "reason": reason}))
    assert isinstance(found, Judgement) == expected
    if isinstance(found, Judgement):
        assert found.score == float(score)
