"""Intervals of the on-time means over the choice of prompts, by the draws of the rest of the report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rbx.report.bootstrap import RatioColumns, bounds, replicate
from rbx.report.interval import Interval, percentile_interval
from rbx.report.ontime.rule import OnTimeRule
from rbx.report.ontime.series import METRICS, series_of
from rbx.report.paired import Resampling
from rbx.report.point import Point
from rbx.report.requests import Floats, Ints


def intervals_over_prompts(
    points: Sequence[Point], rule: OnTimeRule, resampling: Resampling
) -> dict[int, dict[str, Interval]]:
    """Intervals of ``METRICS``, by the id of the point; points over the same prompts share the draws."""
    groups: dict[bytes, list[Point]] = {}
    for point in points:
        groups.setdefault(np.unique(point.prompts).tobytes(), []).append(point)
    found: dict[int, dict[str, Interval]] = {}
    for members in groups.values():
        intervals = _intervals(members, rule, resampling)
        for index, point in enumerate(members):
            mine = intervals[index * len(METRICS) : (index + 1) * len(METRICS)]
            found[id(point)] = dict(zip(METRICS, mine, strict=True))
    return found


def _intervals(points: Sequence[Point], rule: OnTimeRule, resampling: Resampling) -> list[Interval]:
    universe = np.unique(points[0].prompts)
    pairs = [
        _per_prompt(np.searchsorted(universe, point.prompts), column, len(universe))
        for point in points
        for column in series_of(point, rule).T
    ]
    sums, counts = zip(*pairs, strict=True)
    columns = RatioColumns(np.column_stack(sums), np.column_stack(counts))
    drawn = replicate(columns, [], (), n_resamples=resampling.n_resamples, seed=resampling.seed).means
    return [
        percentile_interval(float(value), float(low), float(high), int(n))
        for value, low, high, n in zip(columns.values(), *bounds(drawn), columns.prompts(), strict=True)
    ]


def _per_prompt(at: Ints, values: Floats, size: int) -> tuple[Floats, Floats]:
    counted = np.isfinite(values)
    sums = np.bincount(at[counted], weights=values[counted], minlength=size).astype(np.float64)
    return sums, np.bincount(at[counted], minlength=size).astype(np.float64)
