"""The frontier against its definition, checked pair by pair and edge by edge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.report.frontier import Floats, non_dominated, upper_hull

# Small integers make ties, equal points and points on a line common, and keep the arithmetic exact.
_COORDINATE = st.one_of(st.integers(-4, 4).map(float), st.just(float("nan")))
_POINTS = st.lists(st.tuples(_COORDINATE, _COORDINATE), max_size=14)


def _split(points: list[tuple[float, float]]) -> tuple[Floats, Floats]:
    return np.array([x for x, _ in points], dtype=float), np.array([y for _, y in points], dtype=float)


def _dominates(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return a[0] >= b[0] and a[1] >= b[1] and a != b


def _known(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    return [point for point in points if np.isfinite(point).all()]


@given(_POINTS)
def test_non_dominated_is_what_no_other_point_dominates(points: list[tuple[float, float]]) -> None:
    kept = non_dominated(*_split(points))
    known = _known(points)
    for point, keep in zip(points, kept, strict=True):
        expected = point in known and not any(_dominates(other, point) for other in known)
        assert keep == expected
    assert bool(known) == bool(kept.any())


def _above_or_on(a: tuple[float, float], b: tuple[float, float], p: tuple[float, float]) -> bool:
    """Whether the segment a–b lies at or above p at p's own abscissa."""
    height = (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])
    return a[0] < p[0] < b[0] and height <= 0


@given(_POINTS)
def test_hull_holds_the_non_dominated_points_under_no_segment_of_others(
    points: list[tuple[float, float]],
) -> None:
    gain, quality = _split(points)
    hull = upper_hull(gain, quality)
    found = [points[index] for index in hull]
    front = {point for point, keep in zip(points, non_dominated(gain, quality), strict=True) if keep}
    expected = {p for p in front if not any(_above_or_on(a, b, p) for a in front for b in front)}
    assert set(found) == expected
    assert len(found) == len(expected)  # of equal points only one is a vertex
    assert found == sorted(found)


@given(_POINTS, st.floats(0.05, 20))
def test_every_weighting_has_its_best_on_the_hull(points: list[tuple[float, float]], weight: float) -> None:
    known = _known(points)
    hull = [points[index] for index in upper_hull(*_split(points))]
    if not known:
        assert hull == []
        return
    best = max(weight * x + y for x, y in known)
    assert max(weight * x + y for x, y in hull) == pytest.approx(best)


def test_one_point_two_points_and_a_line() -> None:
    assert upper_hull(*_split([(1.0, 1.0)])) == [0]
    assert upper_hull(*_split([(2.0, 1.0), (1.0, 2.0)])) == [1, 0]
    assert upper_hull(*_split([(0.0, 2.0), (1.0, 1.0), (2.0, 0.0)])) == [0, 2]
    assert upper_hull(*_split([(1.0, 1.0), (1.0, 1.0)])) == [0]
    assert list(non_dominated(*_split([(1.0, 1.0), (1.0, 1.0)]))) == [True, True]
