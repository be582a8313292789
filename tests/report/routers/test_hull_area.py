from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.report.routers.hull_area import hull, mean_heights

Points = list[tuple[float, float]]
_points = st.lists(
    st.tuples(st.integers(0, 12).map(float), st.integers(0, 20).map(lambda q: q / 20)), min_size=1, max_size=9
)


def height(points: Points, low: float, high: float) -> float:
    cost, quality = (np.array(each)[:, None] for each in zip(*points, strict=True))
    return float(mean_heights(cost, quality, np.array([low]), np.array([high]))[0])


def by_mixing(points: Points, cost: float) -> float:
    """The best quality that a mixture of two settings reaches for at most ``cost``."""
    best = max((q for c, q in points if c <= cost), default=-1.0)
    for c0, q0 in points:
        for c1, q1 in points:
            if c0 <= cost < c1:
                best = max(best, q0 + (q1 - q0) * (cost - c0) / (c1 - c0))
    return best


def test_two_settings_make_a_trapezium_and_a_third_below_it_adds_nothing() -> None:
    assert height([(1.0, 0.4), (3.0, 0.8)], 1.0, 3.0) == pytest.approx(0.6)
    assert height([(1.0, 0.4), (3.0, 0.8), (2.0, 0.59)], 1.0, 3.0) == pytest.approx(0.6)
    # Above the line: (0.4 + 0.7) / 2 and (0.7 + 0.8) / 2.
    assert height([(1.0, 0.4), (3.0, 0.8), (2.0, 0.7)], 1.0, 3.0) == pytest.approx(0.65)


def test_who_pays_more_keeps_what_less_would_have_bought() -> None:
    assert height([(0.0, 0.5), (1.0, 0.9), (2.0, 0.1)], 0.0, 2.0) == pytest.approx((0.7 + 0.9) / 2)


def test_what_lies_outside_the_range_counts_only_by_its_lines() -> None:
    points = [(0.0, 0.0), (4.0, 0.8)]
    assert height(points, 1.0, 3.0) == pytest.approx(0.4)


def test_there_is_no_area_without_a_range_or_without_a_point_at_its_lower_end() -> None:
    assert np.isnan(height([(1.0, 0.5)], 1.0, 1.0))
    assert np.isnan(height([(2.0, 0.5)], 1.0, 3.0))


@settings(max_examples=200)
@given(_points, st.integers(0, 12), st.integers(1, 8))
def test_the_hull_is_what_mixtures_of_settings_reach(points: Points, start: int, width: int) -> None:
    low, high = float(start), float(start + width)
    points = [*points, (low, 0.05)]
    fine = np.linspace(low, high, 4001)
    heights = [by_mixing(points, cost) for cost in fine[::40]]
    x, y = hull(*(np.array(each) for each in zip(*points, strict=True)))
    assert np.allclose(np.interp(fine[::40], x, y), heights, atol=1e-9)
    assert height(points, low, high) == pytest.approx(
        np.trapezoid(np.interp(fine, x, y), fine) / width, abs=1e-4
    )


@settings(max_examples=200)
@given(_points, _points)
def test_more_settings_never_lower_the_area_and_better_ones_never_lower_it_either(
    a: Points, b: Points
) -> None:
    a = [*a, (0.0, 0.0)]
    base = height(a, 0.0, 12.0)
    assert height([*a, *b], 0.0, 12.0) >= base - 1e-12
    dominating = [(max(0.0, cost - 1.0), quality + 0.05) for cost, quality in a]
    assert height(dominating, 0.0, 12.0) >= base - 1e-12


def test_each_case_is_judged_by_itself() -> None:
    rng = np.random.default_rng(3)
    cost, quality = rng.random((6, 40)), rng.random((6, 40))
    low, high = cost.min(axis=0), cost.max(axis=0) + 0.1
    together = mean_heights(cost, quality, low, high)
    alone = [
        height(list(zip(cost[:, k].tolist(), quality[:, k].tolist(), strict=True)), low[k], high[k])
        for k in range(40)
    ]
    assert np.allclose(together, alone, atol=1e-12)
