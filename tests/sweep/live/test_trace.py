"""What is made of a gateway's headers, and of what is not as it should be."""

from __future__ import annotations

import pytest

from rbx.sweep.live.trace import read_trace


def test_every_header_has_its_meaning() -> None:
    trace = read_trace(
        {
            "x-rbx-instance": "large%C3%A9/1",
            "x-rbx-decision-mode": "hopeless",
            "x-rbx-attempts": "2",
            "x-rbx-config-version": "17-abcdef",
            "x-rbx-request-id": "r-1",
            "x-rbx-trace": '{"batch_id": 3, "batch_wait_s": 0.05, "predicted_ttft_s": null}',
        }
    )
    assert trace.instance == "largeé/1"
    assert (trace.mode, trace.recorded_mode) == ("hopeless", "hopeless")
    assert (trace.attempts, trace.version_number, trace.request_id) == (2, 17, "r-1")
    assert trace.whole("batch_id") == 3
    assert dict(trace.told) == {"batch_id": 3.0, "batch_wait_s": 0.05}


@pytest.mark.parametrize(
    "value",
    [
        *("", "{", "[1]", "null", '{"batch_id": true}', '{"batch_id": "3"}', '{"batch_id": NaN}', "9" * 400),
        *("[" * 8000, '{"batch_id": 1' + "0" * 400 + "}", '{"batch_id": 1e300}', '{"batch_id": 2147483648}'),
    ],
)
def test_a_trace_that_does_not_read_tells_nothing(value: str) -> None:
    assert dict(read_trace({"x-rbx-trace": value}).told) == {}


def test_a_negative_count_is_absent() -> None:
    assert read_trace({"x-rbx-trace": '{"batch_size": -3}'}).whole("batch_size") is None


def test_attempts_are_as_many_as_a_column_holds() -> None:
    assert read_trace({"x-rbx-attempts": "32767"}).attempts == 2**15 - 1
    assert read_trace({"x-rbx-attempts": "32768"}).attempts is None


@pytest.mark.parametrize("value", ["", "-1", "two", "³", "1" * 30])
def test_a_count_that_does_not_read_is_absent(value: str) -> None:
    trace = read_trace({"x-rbx-attempts": value, "x-rbx-config-version": f"{value}-x"})
    assert trace.attempts is None
    assert trace.version_number is None


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ('{"admission": "relaxed 3", "admitted_candidates": 2}', "relaxed 3"),
        ('{"admission": "whatever", "admitted_candidates": 2}', None),
        ('{"admission": ["all"], "admitted_candidates": 2}', None),
        ('{"admitted_candidates": 2}', None),
    ],
)
def test_what_a_filter_did_is_told_in_its_own_words_alone(value: str, word: str | None) -> None:
    trace = read_trace({"x-rbx-trace": value})
    assert trace.admission == word
    assert trace.whole("admitted_candidates") == 2
