"""OnTimeUtility and attainment of every point on shared resamples of time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rbx.report.bootstrap import bounds
from rbx.report.interval import Interval, not_estimable, percentile_interval
from rbx.report.ontime.block_length import block_length
from rbx.report.ontime.blocks import TimeSeries, resample_blocks
from rbx.report.ontime.rule import OnTimeRule
from rbx.report.ontime.series import METRICS, series_of
from rbx.report.paired import Resampling, why_unpaired
from rbx.report.point import Point
from rbx.report.requests import Floats

Runs = tuple[tuple[int, int], ...]


class TimedPoints:
    """Replicates of ``METRICS`` for every point.

    Points whose runs have the same seeds and lengths share block length and draws, at whatever rate:
    request i is the same prompt at every rate. Others are drawn apart.
    """

    def __init__(self, points: Sequence[Point], rule: OnTimeRule, resampling: Resampling) -> None:
        """Draw the resamples and take every mean on each."""
        self._values: dict[int, Floats] = {}
        self._replicates: dict[int, Floats] = {}
        self._length: dict[Runs, int] = {}
        groups: dict[Runs, list[Point]] = {}
        for point in points:
            groups.setdefault(_runs(point), []).append(point)
        for number, (runs, members) in enumerate(sorted(groups.items())):
            sizes = tuple(size for _, size in runs)
            series = TimeSeries(np.hstack([series_of(point, rule) for point in members]), sizes)
            self._length[runs] = _shared_length(series)
            found = resample_blocks(
                series,
                self._length[runs],
                n_resamples=resampling.n_resamples,
                seed=(resampling.seed, number),
            )
            means = series.means()
            for index, point in enumerate(members):
                rows = slice(index * len(METRICS), (index + 1) * len(METRICS))
                self._values[id(point)] = means[rows]
                self._replicates[id(point)] = found[rows]

    @property
    def block_lengths(self) -> tuple[int, ...]:
        """Every block length in use, ascending."""
        return tuple(sorted(set(self._length.values())))

    def value(self, point: Point, metric: str) -> float:
        """The mean itself."""
        return float(self._values[id(point)][METRICS.index(metric)])

    def replicates(self, point: Point, metric: str) -> Floats:
        """The mean on every resample, shape (B,)."""
        return np.asarray(self._replicates[id(point)][METRICS.index(metric)])

    def mean(self, point: Point, metric: str) -> Interval:
        """The mean with its interval."""
        return self.interval(self.value(point, metric), self.replicates(point, metric), [point])

    def difference(self, point: Point, other: Point, metric: str) -> Interval:
        """``point`` − ``other``, within the same resamples."""
        value = self.value(point, metric) - self.value(other, metric)
        if unpaired := why_unpaired(point, other):
            return not_estimable(value, unpaired)
        gap = self.replicates(point, metric) - self.replicates(other, metric)
        return self.interval(value, gap, [point, other], scale=abs(self.value(other, metric)))

    def interval(
        self, value: float, replicates: Floats, points: Sequence[Point], *, scale: float = 0.0
    ) -> Interval:
        """A statistic of ``points`` and its replicates (B,) as an interval."""
        # Rounding of long sums must not show: a share of none is 0, not 1e-17, nor a score −0.
        low, high = (float(np.round(bound, 12)) + 0.0 for bound in bounds(replicates))
        n = min(point.metrics.counts.scheduled for point in points)
        return percentile_interval(value, low, high, n, scale=scale, drawn="requests")


def _runs(point: Point) -> Runs:
    return tuple((cell.spec.seed, len(cell.requests.prompt)) for cell in point.cells)


def _shared_length(series: TimeSeries) -> int:
    """The longest that OnTimeUtility or attainment asks for in any run, within what the shortest allows."""
    timed = np.arange(series.values.shape[1]) % len(METRICS) != METRICS.index("ungated_utility")
    values = series.values[:, timed]
    known = np.where(np.isfinite(values), values, series.means()[timed])
    ends = np.cumsum(series.sizes)
    lengths = [
        block_length(np.nan_to_num(known[end - size : end]))
        for end, size in zip(ends, series.sizes, strict=True)
    ]
    return min(max(lengths), max(1, min(series.sizes)))
