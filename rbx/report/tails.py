"""Tail quantiles of resampled requests, without building any resample.

A resample is given by how often each prompt was drawn. Walking the sorted values from the largest
down and adding those counts finds an order statistic near the top in a few dozen steps.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def tail_quantiles(
    counts: NDArray[np.uint16], values: Floats, prompts: NDArray[np.int64], quantiles: tuple[float, ...]
) -> Floats:
    """Quantiles of each resample, shape (Q, B): linear between order statistics.

    ``counts`` has shape (B, P); ``values`` (N,) run from the largest to the smallest and ``prompts``
    (N,) says which prompt each belongs to. A resample that drew no value gives NaN.
    """
    per_prompt = np.bincount(prompts, minlength=counts.shape[1]).astype(np.float64)
    totals = counts.astype(np.float64) @ per_prompt
    out = np.empty((len(quantiles), len(counts)))
    for row, quantile in enumerate(quantiles):
        _walk(counts, values, prompts, totals, quantile, out[row])
    return out


@numba.njit(cache=True, nogil=True)  # type: ignore[misc, unused-ignore]
def _walk(
    counts: NDArray[np.uint16],
    values: Floats,
    prompts: NDArray[np.int64],
    totals: Floats,
    quantile: float,
    out: Floats,
) -> None:
    for b in range(counts.shape[0]):
        total = totals[b]
        if total == 0:
            out[b] = np.nan
            continue
        position = (total - 1) * quantile
        below = np.floor(position)
        share = position - below
        # Ranks counted from the top: how many values stand above the wanted one.
        rank_low = total - 1 - below
        rank_high = max(rank_low - 1, 0.0)
        seen = 0.0
        high = np.nan
        for i in range(len(values)):
            seen += counts[b, prompts[i]]
            if np.isnan(high) and seen > rank_high:
                high = values[i]
            if seen > rank_low:
                out[b] = values[i] + share * (high - values[i])
                break
