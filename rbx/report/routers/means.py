"""Means over a population of prompts, and their differences, on shared resamples of the prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rbx.report.bootstrap import Counts, RatioColumns, bounds, replicate, resample_counts
from rbx.report.interval import Interval, percentile_interval
from rbx.report.paired import Resampling

Floats = NDArray[np.float64]


class PairedMeans:
    """K means over n prompts; any two are compared within the same resamples.

    Two of these over populations of one size draw the same resamples, as the seed alone decides them.
    """

    def __init__(self, columns: Sequence[Floats], resampling: Resampling) -> None:
        """``columns``: K arrays of shape (n,); a prompt whose value is NaN does not count in that mean."""
        values = np.column_stack(columns)
        known = ~np.isnan(values)
        ratios = RatioColumns(np.where(known, values, 0.0), known.astype(np.float64))
        self.values: Floats = ratios.values()
        self._prompts = ratios.prompts()
        drawn = replicate(ratios, [], (), n_resamples=resampling.n_resamples, seed=resampling.seed)
        self.replicates: Floats = drawn.means

    def mean(self, column: int) -> Interval:
        """One mean."""
        return interval_of(
            float(self.values[column]), self.replicates[column], n_prompts=int(self._prompts[column])
        )

    def difference(self, column: int, other: int) -> Interval:
        """Mean of ``column`` minus mean of ``other``."""
        return interval_of(
            float(self.values[column] - self.values[other]),
            self.replicates[column] - self.replicates[other],
            n_prompts=int(min(self._prompts[column], self._prompts[other])),
            scale=abs(float(self.values[other])),
        )


def paired_difference(values: Floats, others: Floats, resampling: Resampling) -> Interval:
    """Mean of ``values`` minus mean of ``others``, (n,) each, over the prompts known in both."""
    gap = values - others
    means = PairedMeans([gap], resampling)
    scale = float(np.nanmean(np.abs(others))) if np.isfinite(others).any() else 0.0
    return interval_of(
        float(means.values[0]), means.replicates[0], n_prompts=int((~np.isnan(gap)).sum()), scale=scale
    )


def interval_of(value: float, replicates: Floats, *, n_prompts: int, scale: float = 0.0) -> Interval:
    """A statistic's value with the percentiles of its ``replicates`` (B,); see ``percentile_interval``."""
    low, high = bounds(replicates)
    return percentile_interval(value, float(low), float(high), n_prompts, scale=scale)


def drawn_prompts(n_prompts: int, resampling: Resampling) -> Iterator[Counts]:
    """The resamples themselves, for statistics that are no means: how often each prompt was drawn."""
    return resample_counts(n_prompts, resampling.n_resamples, resampling.seed)
