"""Means over a population of prompts, and their differences, on shared resamples of the prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rbx.report.bootstrap import Counts, RatioColumns, replicate, resample_counts
from rbx.report.interval import Interval
from rbx.report.paired import Resampling, from_replicates

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
        return from_replicates(
            float(self.values[column]), self.replicates[column], int(self._prompts[column])
        )

    def difference(self, column: int, other: int) -> Interval:
        """Mean of ``column`` minus mean of ``other``."""
        return from_replicates(
            float(self.values[column] - self.values[other]),
            self.replicates[column] - self.replicates[other],
            int(min(self._prompts[column], self._prompts[other])),
            scale=abs(float(self.values[other])),
        )


def drawn_prompts(n_prompts: int, resampling: Resampling) -> Iterator[Counts]:
    """The resamples themselves, for statistics that are no means: how often each prompt was drawn."""
    return resample_counts(n_prompts, resampling.n_resamples, resampling.seed)
