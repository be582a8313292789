"""Which cells keep up with arrivals: judged on queues simulated here, and only where it can be told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.report.keeping_up import FEWEST_LATE_ARRIVALS, all_keep_up, keeps_up
from rbx.report.load import Sweep
from rbx.report.requests import Floats, Requests
from rbx.sweep.records import STATUSES

_OK, _ERROR = STATUSES.index("ok"), STATUSES.index("error")


@pytest.fixture(scope="module")
def some(sweep: Sweep) -> Requests:
    return sweep.cells[0].requests


def _cell(some: Requests, scheduled_s: Floats, wait_s: Floats | float, decode_s: Floats | float) -> Requests:
    """Requests with these times; what else they hold has no part in the answer."""
    first = scheduled_s + wait_s
    status = np.full(len(scheduled_s), _OK)
    return replace(some, scheduled_s=scheduled_s, first_token_s=first, done_s=first + decode_s, status=status)


def _waits(scheduled_s: Floats, service_s: float) -> Floats:
    """Waiting times of one server that takes requests in order (Lindley's recursion)."""
    waits = np.zeros(len(scheduled_s))
    for i in range(1, len(waits)):
        waits[i] = max(0.0, waits[i - 1] + service_s - (scheduled_s[i] - scheduled_s[i - 1]))
    return waits


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), load=st.one_of(st.floats(0.05, 0.8), st.floats(1.25, 5.0)))
def test_a_queue_keeps_up_exactly_where_its_load_is_below_one(some: Requests, seed: int, load: float) -> None:
    rng = np.random.default_rng(seed)
    scheduled_s = np.cumsum(rng.exponential(1.0, 6000))
    cell = _cell(some, scheduled_s, _waits(scheduled_s, load), load)
    assert keeps_up(cell) is (load < 1)


@pytest.mark.parametrize(
    ("late", "expected"), [(FEWEST_LATE_ARRIVALS - 1, None), (FEWEST_LATE_ARRIVALS, False)]
)
def test_few_arrivals_give_no_answer(some: Requests, late: int, expected: bool | None) -> None:
    scheduled_s = np.arange(1.0, 2 * late + 1)
    cell = _cell(some, scheduled_s, 10 * scheduled_s, 1.0)
    assert keeps_up(cell) is expected


def test_requests_that_arrive_at_once_give_no_answer(some: Requests) -> None:
    assert keeps_up(_cell(some, np.zeros(2000), np.arange(2000.0), 1.0)) is None


def test_batches_that_still_fill_are_no_overload(some: Requests) -> None:
    """Every request starts at once; in a short window half of the long answers are still under way."""
    scheduled_s = np.linspace(0.01, 10.0, 1000)
    long_s = np.where(np.arange(1000) % 2, 1.0, 9.0)
    short = _cell(some, scheduled_s, 0.05, long_s)
    assert keeps_up(short) is None
    longer_s = np.linspace(0.01, 100.0, 10_000)
    assert keeps_up(_cell(some, longer_s, 0.05, np.resize(long_s, 10_000))) is True


def test_a_growing_queue_is_seen_in_a_short_window_too(some: Requests) -> None:
    scheduled_s = np.linspace(0.01, 10.0, 1000)
    assert keeps_up(_cell(some, scheduled_s, scheduled_s, 5.0)) is False


def test_failed_requests_have_not_completed(some: Requests) -> None:
    scheduled_s = np.linspace(0.1, 100.0, 1000)
    cell = _cell(some, scheduled_s, 0.05, 1.0)
    assert keeps_up(cell) is True
    torn = replace(cell, status=np.where(np.arange(1000) % 10 == 0, _ERROR, _OK))
    assert keeps_up(torn) is False
    assert keeps_up(replace(cell, status=np.full(1000, _ERROR))) is False


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [
        ((True, True), True),
        ((True, False), False),
        ((False, None), False),
        ((True, None), True),
        ((None, None), None),
    ],
)
def test_a_point_keeps_up_where_every_seed_that_tells_does(
    seeds: tuple[bool | None, ...], expected: bool | None
) -> None:
    assert all_keep_up(seeds) is expected
