"""Paired bootstrap over time: blocks of consecutive requests, the same for every policy.

Lateness clusters: one request is late because the ones before it filled the queue. Resampling
single requests or prompts would take neighbours for independent and give intervals that are too
narrow. So whole blocks of consecutive requests are drawn, with replacement, until as many requests
are together as the run has (the last block is cut). Blocks may start anywhere and wrap around at the
end of the run, so that each request is drawn equally often (Politis and Romano 1992). Each seed's run
is drawn apart. All columns share the draws, so that differences and ratios of policies are paired.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from rbx.errors import StatisticsError
from rbx.report.bootstrap import distinct
from rbx.report.requests import Floats


@dataclass(frozen=True)
class TimeSeries:
    """K series over the N requests of one or more runs, one run after the other.

    ``values`` has shape (N, K), NaN where a request does not count; ``sizes`` holds the length of
    each run and sums to N.
    """

    values: Floats
    sizes: tuple[int, ...]

    def means(self) -> Floats:
        """The K means over requests that count; NaN where none does."""
        counted = np.isfinite(self.values)
        return _ratio(np.where(counted, self.values, 0.0).sum(axis=0), counted.sum(axis=0))


def resample_blocks(series: TimeSeries, length: int, *, n_resamples: int, seed: tuple[int, ...]) -> Floats:
    """Means on every resample, shape (K, n_resamples); NaN where no request of a resample counts.

    Raises ``StatisticsError`` for a length or a number of resamples below 1, or an empty run.
    """
    if length < 1 or n_resamples < 1 or not series.sizes or min(series.sizes) < 1:
        raise StatisticsError(
            f"can't draw {n_resamples} resamples in blocks of {length} from runs of {series.sizes} requests"
        )
    counted = np.isfinite(series.values)
    # Centring keeps the rounding error relative to the spread, not to the level of the values.
    centres = np.nan_to_num(series.means(), nan=0.0)
    centred = np.where(counted, series.values - centres, 0.0)
    patterns, which = distinct([pattern.astype(np.float64) for pattern in counted.T])
    columns = np.hstack([centred, patterns.T])
    totals = np.zeros((n_resamples, columns.shape[1]))
    rng = np.random.default_rng(list(seed))
    start = 0
    for size in series.sizes:
        _add_run(totals, columns[start : start + size], min(length, size), rng)
        start += size
    k = series.values.shape[1]
    counts = np.rint(totals[:, k:])[:, which]
    return np.ascontiguousarray((_ratio(totals[:, :k], counts) + centres).T)


def _add_run(totals: Floats, columns: Floats, length: int, rng: np.random.Generator) -> None:
    """Add the sums of one run's resamples."""
    n = len(columns)
    blocks = -(-n // length)
    starts = rng.integers(0, n, size=(len(totals), blocks))
    wrapped = np.vstack([np.zeros((1, columns.shape[1])), columns, columns[: length - 1]])
    cumulative = np.cumsum(wrapped, axis=0)
    last = n - (blocks - 1) * length
    for drawn, reach in ((starts[:, :-1], length), (starts[:, -1:], last)):
        # Row b counts how often each start was drawn: sums over blocks are a sparse product.
        ends = np.arange(len(totals) + 1) * drawn.shape[1]
        counts = csr_array((np.ones(drawn.size), drawn.ravel(), ends), shape=(len(totals), n))
        totals += counts @ (cumulative[reach : reach + n] - cumulative[:n])


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    empty = denominator == 0
    return np.where(empty, np.nan, numerator / np.where(empty, 1.0, denominator))
