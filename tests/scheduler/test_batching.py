"""A batch closes at its size or its window, whichever comes first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.config.experiment import Batching
from rbx.scheduler.batching import BatchFormer


def fixed(size: int, window_s: float, *, eager: bool = False) -> BatchFormer:
    return BatchFormer(Batching(mode="fixed", max_size=size, window_s=window_s, eager=eager))


def test_nothing_waits_nothing_closes() -> None:
    assert fixed(4, 0.05).closes_s() == np.inf


def test_a_lone_request_waits_out_the_window() -> None:
    former = fixed(4, 0.05)
    former.add(7, 1.0)
    assert former.closes_s() == pytest.approx(1.05)


def test_a_request_that_was_scored_first_waits_from_then_and_has_arrived_before() -> None:
    former = fixed(4, 0.05)
    former.add(7, 2.0, arrived_s=1.0)
    assert former.closes_s() == pytest.approx(2.05)
    assert former.take()[1].tolist() == [1.0]


def test_eager_does_not_hold_a_lone_request_on_an_idle_pool() -> None:
    former = fixed(4, 0.05, eager=True)
    former.add(7, 1.0)
    assert former.closes_s() == 1.0
    former.observe(0.2)
    assert former.closes_s() == pytest.approx(1.05)


def test_a_full_batch_closes_when_its_last_member_arrives() -> None:
    former = fixed(3, 0.05)
    for position in range(5):
        former.add(position, 1.0 + 0.001 * position)
    assert former.closes_s() == pytest.approx(1.002)
    requests, arrived_s = former.take()
    assert requests.tolist() == [0, 1, 2]
    assert arrived_s.tolist() == [1.0, 1.001, 1.002]
    assert len(former) == 2


def test_no_batch_closes_while_a_decision_is_under_way() -> None:
    former = fixed(1, 0.0)
    former.hold_until(2.0)
    former.add(0, 1.0)
    assert former.closes_s() == 2.0


@pytest.mark.parametrize(
    ("busy_share", "size", "window_s"),
    [(0.0, 4, 0.05), (0.29, 4, 0.05), (0.3, 16, 0.1), (0.69, 16, 0.1), (0.7, 32, 0.2), (1.0, 32, 0.2)],
)
def test_adaptive_table(busy_share: float, size: int, window_s: float) -> None:
    former = BatchFormer(Batching())
    former.observe(busy_share)
    former.add(0, 0.0)
    assert former.closes_s() == pytest.approx(window_s)
    for position in range(1, 64):
        former.add(position, 0.0)
    assert len(former.take()[0]) == size


@given(
    gaps_s=st.lists(st.floats(0, 0.2), min_size=1, max_size=60),
    size=st.integers(1, 8),
    window_s=st.floats(0, 0.1),
)
def test_every_request_leaves_once_in_order_and_in_time(
    gaps_s: list[float], size: int, window_s: float
) -> None:
    former = fixed(size, window_s)
    arrivals = np.cumsum(gaps_s).tolist()
    left: list[int] = []
    position = 0
    while True:
        closes_s = former.closes_s()
        if position < len(arrivals) and arrivals[position] <= closes_s:
            former.add(position, arrivals[position])
            position += 1
            continue
        if closes_s == np.inf:
            break
        requests, arrived_s = former.take()
        assert len(requests) <= size
        assert closes_s - arrived_s.min() <= window_s + 1e-12
        left.extend(requests.tolist())
    assert left == list(range(len(arrivals)))
