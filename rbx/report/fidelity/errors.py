"""Errors of replayed times by rate and tier, with intervals over blocks of time.

Requests near each other share a queue, so their errors are alike: whole blocks of consecutive requests
are resampled, as on-time figures are (``rbx.report.ontime.blocks``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from rbx.report.bootstrap import bounds
from rbx.report.fidelity.timing import METRICS, Timing
from rbx.report.interval import Interval, percentile_interval
from rbx.report.ontime.block_length import block_length
from rbx.report.ontime.blocks import TimeSeries, resample_blocks
from rbx.report.paired import Resampling

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Group:
    """A name for some of the requests of a band; ``rows`` (N,) are theirs. None: of every rate, or tier."""

    rate_per_s: float | None
    tier: str | None
    rows: Bools


@dataclass(frozen=True)
class ErrorRow:
    """How far the replayed times of ``n`` requests lie from the live ones.

    ``mean_error`` is replayed mean ÷ live mean − 1, ``mape`` the mean of |replayed ÷ live − 1|,
    ``p99_error`` replayed 99th percentile ÷ live − 1. Without intervals: medians, percentiles, ranks.
    """

    source: str
    population: str
    rate_per_s: float | None
    tier: str | None
    metric: str
    n: int
    live_mean_s: float
    replayed_mean_s: float
    mean_error: Interval
    mape: Interval
    median_ape: float
    p90_ape: float
    p99_error: float
    spearman: float


def error_rows(
    source: str,
    population: str,
    timings: Sequence[Timing],
    judged: Sequence[Bools],
    groups: Sequence[Group],
    resampling: Resampling,
) -> Iterator[ErrorRow]:
    """Errors of each group and metric over cells run one after the other; empty groups are left out.

    ``judged`` says which requests of each cell count.
    """
    live = np.concatenate([each.live for each in timings])
    replayed = np.concatenate([each.replayed for each in timings])
    ape = np.abs(np.concatenate([each.relative for each in timings]))
    counts = np.concatenate(list(judged))
    picked = [
        (group, metric, counts & group.rows & np.isfinite(ape[:, k]), k)
        for group in groups
        for k, metric in enumerate(METRICS)
    ]
    picked = [entry for entry in picked if entry[2].any()]
    if not picked:
        return
    columns = [
        np.where(mask, values[:, k], np.nan) for _, _, mask, k in picked for values in (live, replayed, ape)
    ]
    sizes = tuple(len(each.compared) for each in timings)
    series = TimeSeries(np.column_stack(columns), sizes)
    drawn = resample_blocks(
        series, _length(series), n_resamples=resampling.n_resamples, seed=(resampling.seed, 7)
    )
    means = series.means()
    for at, (group, metric, mask, k) in enumerate(picked):
        n, first = int(mask.sum()), 3 * at
        known_live, known_replayed = live[mask, k], replayed[mask, k]
        yield ErrorRow(
            source=source,
            population=population,
            rate_per_s=group.rate_per_s,
            tier=group.tier,
            metric=metric,
            n=n,
            live_mean_s=float(means[first]),
            replayed_mean_s=float(means[first + 1]),
            mean_error=_interval(
                means[first + 1] / means[first] - 1.0, drawn[first + 1] / drawn[first] - 1.0, n, scale=1.0
            ),
            mape=_interval(means[first + 2], drawn[first + 2], n),
            median_ape=float(np.median(ape[mask, k])),
            p90_ape=float(np.quantile(ape[mask, k], 0.9)),
            p99_error=float(np.quantile(known_replayed, 0.99) / np.quantile(known_live, 0.99) - 1.0),
            spearman=_rank_correlation(known_live, known_replayed),
        )


def _interval(value: float, replicates: Floats, n: int, *, scale: float = 0.0) -> Interval:
    low, high = bounds(replicates)
    return percentile_interval(float(value), float(low), float(high), n, scale=scale, drawn="requests")


def _length(series: TimeSeries) -> int:
    """The longest block that the errors of any cell ask for, within what the shortest cell allows."""
    means = series.means()
    known = np.where(np.isfinite(series.values), series.values, np.nan_to_num(means))
    ends = np.cumsum(series.sizes)
    lengths = [block_length(known[end - size : end]) for end, size in zip(ends, series.sizes, strict=True)]
    return min(max(lengths), max(1, min(series.sizes)))


def _rank_correlation(live: Floats, replayed: Floats) -> float:
    if len(live) < 3 or np.ptp(live) == 0 or np.ptp(replayed) == 0:
        return float("nan")
    return float(spearmanr(live, replayed).statistic)
