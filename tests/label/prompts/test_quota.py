"""Quotas: they add up, no source gives more than it has, shares are kept as far as can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.label.prompts.quota import quotas

SOURCES = st.lists(st.tuples(st.floats(1e-3, 1e3), st.integers(0, 5_000)), min_size=1, max_size=8).map(
    lambda pairs: ([share for share, _ in pairs], [capacity for _, capacity in pairs])
)


@pytest.mark.parametrize(
    ("total", "shares", "capacities", "expected"),
    [
        (10, [1, 1, 1], [100, 100, 100], [4, 3, 3]),
        (7, [1, 2, 4], [100, 100, 100], [1, 2, 4]),
        (8, [1, 2, 4], [100, 100, 100], [1, 2, 5]),  # 1.14, 2.29, 4.57
        (
            21_000,
            [1] * 7,
            [2_985, 9_000, 7_000, 90_000, 500_000, 7_473, 87_599],
            [2_985, *[3_003] * 3, *[3_002] * 3],
        ),
        (100, [1, 1, 1], [10, 20, 30], [10, 20, 30]),
        (60, [1, 1, 4], [5, 100, 20], [5, 35, 20]),  # the shortfall of the third makes room in the second
        (5, [1, 1], [0, 3], [0, 3]),
        (1, [0.1, 0.1, 0.1], [1, 1, 1], [1, 0, 0]),
    ],
)
def test_quotas_by_hand(total: int, shares: list[float], capacities: list[int], expected: list[int]) -> None:
    assert quotas(total, shares, capacities) == expected


@given(SOURCES, st.integers(0, 20_000))
def test_they_add_up_within_what_each_source_has(sources: tuple[list[float], list[int]], total: int) -> None:
    shares, capacities = sources
    given_by = quotas(total, shares, capacities)
    assert sum(given_by) == min(total, sum(capacities))
    assert all(0 <= n <= capacity for n, capacity in zip(given_by, capacities, strict=True))
    assert given_by == quotas(total, shares, capacities)


@given(SOURCES, st.integers(0, 20_000))
def test_a_source_of_larger_share_gives_no_less_where_it_can(
    sources: tuple[list[float], list[int]], total: int
) -> None:
    shares, capacities = sources
    given_by = quotas(total, shares, capacities)
    for n, share, capacity in zip(given_by, shares, capacities, strict=True):
        for other_n, other_share in zip(given_by, shares, strict=True):
            if share > other_share and n < capacity:
                assert n >= other_n


@given(st.lists(st.integers(0, 5_000), min_size=1, max_size=8), st.integers(0, 20_000))
def test_equal_shares_differ_by_one_at_most_but_where_a_source_has_no_more(
    capacities: list[int], total: int
) -> None:
    given_by = quotas(total, [1.0] * len(capacities), capacities)
    with_more = [n for n, capacity in zip(given_by, capacities, strict=True) if n < capacity]
    if with_more:
        assert max(given_by) - min(with_more) <= 1


@given(SOURCES, st.integers(0, 5_000))
def test_within_capacity_each_part_is_its_proportion_rounded(
    sources: tuple[list[float], list[int]], total: int
) -> None:
    shares = sources[0]
    given_by = quotas(total, shares, [total] * len(shares))
    for n, share in zip(given_by, shares, strict=True):
        assert abs(n - total * share / sum(shares)) < 1 + 1e-6
