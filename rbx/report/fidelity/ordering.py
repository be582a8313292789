"""Which policy is better than which, live and simulated: the order by each metric, and what it is worth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rbx.report.interval import Interval, not_estimable
from rbx.report.labels import Labels
from rbx.report.paired import MEANS, PairedPoints, Resampling, from_replicates, pair_up
from rbx.report.point import Point

Floats = NDArray[np.float64]

HIGHER_IS_BETTER = frozenset({"quality", "throughput_per_s"})


@dataclass(frozen=True)
class Swap:
    """Two policies in one order live (``better`` first) and in the other one simulated.

    ``live_gap`` and ``simulated_gap`` are better − worse in the metric's own unit, with paired intervals.
    """

    better: str
    worse: str
    live_gap: Interval
    simulated_gap: Interval

    @property
    def is_clear(self) -> bool:
        """Whether both runs are sure of their order: the simulator was wrong, not unlucky."""
        return self.live_gap.excludes_zero and self.simulated_gap.excludes_zero


@dataclass(frozen=True)
class OrderRow:
    """Order of policies by one metric at one rate, best first; ``tau`` is Kendall's (tau-b)."""

    source: str
    rate_per_s: float
    metric: str
    live: tuple[tuple[str, float], ...]
    simulated: tuple[tuple[str, float], ...]
    tau: Interval
    swaps: tuple[Swap, ...]


def order_rows(
    source: str,
    live: Sequence[Point],
    simulated: Sequence[Point],
    labels: Labels,
    resampling: Resampling,
) -> Iterator[OrderRow]:
    """Compare the orders at every rate with two or more policies in both."""
    for paired in pair_up([*live, *simulated], labels, resampling):
        for rate_per_s in paired.rates:
            couples = _couples(rate_per_s, live, simulated)
            if len(couples) > 1:
                yield from (_row(source, paired, couples, metric) for metric in MEANS)


def _couples(
    rate_per_s: float, live: Sequence[Point], simulated: Sequence[Point]
) -> list[tuple[Point, Point]]:
    again = {point.label: point for point in simulated if point.rate_per_s == rate_per_s}
    return [
        (point, again[point.label])
        for point in live
        if point.rate_per_s == rate_per_s and point.label in again
    ]


def _row(source: str, paired: PairedPoints, couples: list[tuple[Point, Point]], metric: str) -> OrderRow:
    means = [[paired.mean(point, metric) for point in couple] for couple in couples]
    live, simulated = (np.array([pair[k].value for pair in means]) for k in (0, 1))
    names = [couple[0].label for couple in couples]
    swaps = [
        _swap(paired, couples[i], couples[j], metric)
        for i, j in combinations(range(len(couples)), 2)
        if (live[i] - live[j]) * (simulated[i] - simulated[j]) < 0
    ]
    return OrderRow(
        source=source,
        rate_per_s=couples[0][0].rate_per_s,
        metric=metric,
        live=_ranked(names, live, metric),
        simulated=_ranked(names, simulated, metric),
        tau=_tau_interval(paired, couples, metric, live, simulated),
        swaps=tuple(swaps),
    )


def _swap(paired: PairedPoints, one: tuple[Point, Point], other: tuple[Point, Point], metric: str) -> Swap:
    gap = paired.mean(one[0], metric).value - paired.mean(other[0], metric).value
    first, second = (one, other) if (gap > 0) == (metric in HIGHER_IS_BETTER) else (other, one)
    return Swap(
        better=first[0].label,
        worse=second[0].label,
        live_gap=paired.difference(first[0], second[0], metric),
        simulated_gap=paired.difference(first[1], second[1], metric),
    )


def _ranked(names: list[str], values: Floats, metric: str) -> tuple[tuple[str, float], ...]:
    known = [
        (name, value) for name, value in zip(names, values.tolist(), strict=True) if math.isfinite(value)
    ]
    return tuple(sorted(known, key=lambda each: each[1], reverse=metric in HIGHER_IS_BETTER))


def _tau_interval(
    paired: PairedPoints, couples: list[tuple[Point, Point]], metric: str, live: Floats, simulated: Floats
) -> Interval:
    """Tau on every resample of the prompts, the same for both runs."""
    value = float(kendall_tau(live[:, None], simulated[:, None])[0])
    if math.isnan(value):
        return not_estimable(value, "a policy has no value, or all have the same")
    replicates = [np.array([paired.mean_replicates(pair[k], metric) for pair in couples]) for k in (0, 1)]
    n_prompts = min(paired.known_prompts(point, metric) for couple in couples for point in couple)
    return from_replicates(value, kendall_tau(replicates[0], replicates[1]), n_prompts)


def kendall_tau(a: Floats, b: Floats) -> Floats:
    """Tau-b of columns (P, B) of two tables over their P rows; NaN where a column holds one value alone."""
    upper = np.triu_indices(len(a), 1)
    one = np.sign(a[upper[0]] - a[upper[1]])
    other = np.sign(b[upper[0]] - b[upper[1]])
    untied = np.sqrt((one**2).sum(axis=0) * (other**2).sum(axis=0))
    return np.asarray(
        np.where(untied > 0, (one * other).sum(axis=0) / np.where(untied > 0, untied, 1.0), np.nan)
    )
