"""Tail quantiles of resampled requests, without building any resample.

A resample is given by how often each prompt was drawn. Walking the sorted values from the largest
down and adding those counts finds an order statistic near the top in a few dozen steps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.compiled import njit

Floats = NDArray[np.float64]


def tail_quantiles(
    counts: NDArray[np.uint16],
    totals: Floats,
    values: Floats,
    prompts: NDArray[np.int64],
    quantiles: tuple[float, ...],
) -> Floats:
    """Quantiles of each resample, shape (Q, B): linear between order statistics.

    ``counts`` has shape (B, P), ``totals`` (B,) says how many values each resample drew; ``values``
    (N,) run from the largest to the smallest and ``prompts`` (N,) says which prompt each belongs
    to. A resample that drew no value gives NaN.
    """
    out = np.empty((len(quantiles), len(counts)))
    for row, quantile in enumerate(quantiles):
        _walk(counts, values, prompts, totals, quantile, out[row])
    return out


@njit(cache=True, nogil=True)  # type: ignore[misc, unused-ignore]
def _walk(
    counts: NDArray[np.uint16],
    values: Floats,
    prompts: NDArray[np.int64],
    totals: Floats,
    quantile: float,
    out: Floats,
) -> None:
    for b in range(counts.shape[0]):
        if totals[b] == 0:
            out[b] = np.nan
            continue
        position = (totals[b] - 1) * quantile
        below = np.floor(position)
        # How many values stand above the order statistic below the position, and above the next one.
        rank_low = int(totals[b] - 1 - below)
        rank_high = max(rank_low - 1, 0)
        row = counts[b]
        seen = int(row[prompts[0]])
        i = 0
        while seen <= rank_high:
            i += 1
            seen += int(row[prompts[i]])
        high = values[i]
        while seen <= rank_low:
            i += 1
            seen += int(row[prompts[i]])
        out[b] = values[i] + (position - below) * (high - values[i])
