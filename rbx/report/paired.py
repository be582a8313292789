"""Intervals and paired differences of all points that ran over the same prompts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np

from rbx.report.bootstrap import (
    Floats,
    RatioColumns,
    Replicates,
    Runner,
    TailColumn,
    bounds,
    replicate,
    run_here,
)
from rbx.report.interval import Interval, not_estimable, percentile_interval
from rbx.report.labels import Labels
from rbx.report.point import Point
from rbx.report.ratio import MEAN_RATIOS, mean_of
from rbx.report.requests import Ints

MEANS = tuple(MEAN_RATIOS)
TAIL_METRICS = ("e2e_s", "ttft_s")
QUANTILES = (0.95, 0.99)
ORACLE = "oracle"


@dataclass(frozen=True)
class Resampling:
    """How intervals are made, and where; ``level`` is that of ``rbx.report.bootstrap``."""

    n_resamples: int = 10_000
    seed: int = 0
    run: Runner = run_here


class PairedPoints:
    """Points over one set of P prompts, with shared resamples.

    Rows of the replicates: ``MEANS`` of each point, then for each rate the mean score of each model
    and of the per-prompt best (``ORACLE``) over that rate's requests.
    """

    def __init__(self, points: list[Point], labels: Labels, resampling: Resampling) -> None:
        """Draw the resamples and take every statistic on each."""
        self.points = points
        self.labels = labels
        self.universe: Ints = np.unique(np.concatenate([point.prompts for point in points]))
        self.rates = sorted({point.rate_per_s for point in points})
        self._row = {id(point): index for index, point in enumerate(points)}
        self.columns = self._ratio_columns()
        self._values = self.columns.values()
        self._known_prompts = self.columns.prompts()
        tails = [self._tail(point, metric) for point in points for metric in TAIL_METRICS]
        self._tail_prompts = [len(np.unique(tail.prompts)) for tail in tails]
        self._tail_values = [_quantiles(tail.values) for tail in tails]
        self.replicates: Replicates = replicate(
            self.columns,
            tails,
            QUANTILES,
            n_resamples=resampling.n_resamples,
            seed=resampling.seed,
            run=resampling.run,
        )

    def mean(self, point: Point, metric: str) -> Interval:
        """Mean of a metric over its population, with its interval."""
        return self._interval(self._mean_row(point, metric))

    def difference(self, point: Point, baseline: Point, metric: str) -> Interval:
        """Mean of ``point`` minus mean of ``baseline``, within the same resamples."""
        a, b = self._mean_row(point, metric), self._mean_row(baseline, metric)
        value = float(self._values[a] - self._values[b])
        if unpaired := why_unpaired(point, baseline):
            return not_estimable(value, unpaired)
        n_prompts = int(min(self._known_prompts[a], self._known_prompts[b]))
        gap = self.replicates.means[a] - self.replicates.means[b]
        return from_replicates(value, gap, n_prompts, scale=abs(float(self._values[b])))

    def tail(self, point: Point, metric: str, quantile: float) -> Interval:
        """A tail quantile with its interval."""
        row, column = self._tail_row(point, metric), QUANTILES.index(quantile)
        value = float(self._tail_values[row][column])
        return from_replicates(value, self.replicates.tails[row, column], self._tail_prompts[row])

    def tail_difference(self, point: Point, baseline: Point, metric: str, quantile: float) -> Interval:
        """A tail quantile of ``point`` minus that of ``baseline``, within the same resamples."""
        a, b = self._tail_row(point, metric), self._tail_row(baseline, metric)
        column = QUANTILES.index(quantile)
        value = float(self._tail_values[a][column] - self._tail_values[b][column])
        if unpaired := why_unpaired(point, baseline):
            return not_estimable(value, unpaired)
        n_prompts = min(self._tail_prompts[a], self._tail_prompts[b])
        gap = self.replicates.tails[a, column] - self.replicates.tails[b, column]
        return from_replicates(value, gap, n_prompts, scale=abs(float(self._tail_values[b][column])))

    def model_mean(self, rate_per_s: float, model: str) -> Interval:
        """Mean score of a model (or of ``ORACLE``) over the requests of a rate."""
        return self._interval(self._model_row(rate_per_s, model))

    def blend(self, rate_per_s: float, shares: dict[str, float]) -> tuple[float, Floats]:
        """Σ share · mean score of the model over a rate's requests: its value and replicates (B,)."""
        rows = [self._model_row(rate_per_s, model) for model in shares]
        weights = np.array(list(shares.values()))
        return float(weights @ self._values[rows]), np.asarray(weights @ self.replicates.means[rows])

    def quality_replicates(self, point: Point) -> Floats:
        """Mean quality of a point on each resample, shape (B,)."""
        return self.mean_replicates(point, "quality")

    def mean_replicates(self, point: Point, metric: str) -> Floats:
        """A mean of a point on each resample, shape (B,)."""
        return np.asarray(self.replicates.means[self._mean_row(point, metric)])

    def known_prompts(self, point: Point, metric: str) -> int:
        """How many prompts count in a mean."""
        return int(self._known_prompts[self._mean_row(point, metric)])

    def reference_point(self, rate_per_s: float) -> Point:
        """The point whose requests stand for the rate's workload: the one with most seeds."""
        return max((p for p in self.points if p.rate_per_s == rate_per_s), key=lambda p: len(p.cells))

    def _interval(self, row: int) -> Interval:
        return from_replicates(
            float(self._values[row]), self.replicates.means[row], int(self._known_prompts[row])
        )

    def _mean_row(self, point: Point, metric: str) -> int:
        return self._row[id(point)] * len(MEANS) + MEANS.index(metric)

    def _tail_row(self, point: Point, metric: str) -> int:
        return self._row[id(point)] * len(TAIL_METRICS) + TAIL_METRICS.index(metric)

    def _model_row(self, rate_per_s: float, model: str) -> int:
        names = (*self.labels.models, ORACLE)
        offset = self.rates.index(rate_per_s) * len(names)
        return len(self.points) * len(MEANS) + offset + names.index(model)

    def _tail(self, point: Point, metric: str) -> TailColumn:
        values = np.concatenate(
            [np.where(c.requests.ok, getattr(c.requests, metric), np.nan) for c in point.cells]
        )
        return TailColumn.of(values, np.searchsorted(self.universe, point.prompts))

    def _ratio_columns(self) -> RatioColumns:
        pairs = chain(
            (pair for point in self.points for pair in self._point_columns(point)),
            (pair for rate in self.rates for pair in self._label_columns(rate)),
        )
        sums, counts = zip(*pairs, strict=True)
        return RatioColumns(np.column_stack(sums), np.column_stack(counts))

    def _point_columns(self, point: Point) -> list[tuple[Floats, Floats]]:
        runs = [cell.requests for cell in point.cells]
        at = np.searchsorted(self.universe, point.prompts)
        return [MEAN_RATIOS[metric](runs).per_prompt(at, len(self.universe)) for metric in MEANS]

    def _label_columns(self, rate_per_s: float) -> list[tuple[Floats, Floats]]:
        point = self.reference_point(rate_per_s)
        at = np.searchsorted(self.universe, point.prompts)
        score = self.labels.score[point.prompts]
        best = np.where(np.isnan(score), -np.inf, score).max(axis=1, initial=-np.inf)
        columns = [*score.T, np.where(np.isfinite(best), best, np.nan)]
        known = [mean_of(values, np.isfinite(values)) for values in columns]
        return [ratio.per_prompt(at, len(self.universe)) for ratio in known]


def pair_up(points: list[Point], labels: Labels, resampling: Resampling) -> list[PairedPoints]:
    """Split points by the set of prompts that their rate ran over; each set is resampled together."""
    by_rate: dict[float, list[Point]] = {}
    for point in points:
        by_rate.setdefault(point.rate_per_s, []).append(point)
    groups: dict[bytes, list[Point]] = {}
    for members in by_rate.values():
        prompts = np.unique(np.concatenate([point.prompts for point in members]))
        groups.setdefault(prompts.tobytes(), []).extend(members)
    return [PairedPoints(members, labels, resampling) for members in groups.values()]


def why_unpaired(point: Point, baseline: Point) -> str:
    """Empty where two points faced the same requests, else what sets them apart."""
    if point.workloads == baseline.workloads:
        same = np.array_equal(point.prompts, baseline.prompts)
        return "" if same else "not paired: the records hold different prompts for the same workload"
    mine, theirs = ({seed for seed, _ in each.workloads} for each in (point, baseline))
    if mine != theirs:
        return f"not paired: seeds {sorted(mine)} against {sorted(theirs)}"
    return "not paired: the two faced different workloads"


def from_replicates(value: float, replicates: Floats, n_prompts: int, *, scale: float = 0.0) -> Interval:
    """The interval of a statistic from what it is on each resample (B,); ``scale`` as in ``interval``."""
    low, high = bounds(replicates)
    return percentile_interval(value, float(low), float(high), n_prompts, scale=scale)


def _quantiles(values: Floats) -> Floats:
    if not len(values):
        return np.full(len(QUANTILES), np.nan)
    return np.asarray(np.quantile(values, QUANTILES))
