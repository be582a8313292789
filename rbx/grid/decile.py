"""Coverage by length: whether what is missing is missing at random, or for long prompts above all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PARTS = 10
FEWEST_PROMPTS = 30
SIGNIFICANT = 1e-3

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Decile:
    """About a tenth of the prompts by length: from ``low`` to ``high``, and the share that is covered."""

    low: float
    high: float
    prompts: int
    share: float


@dataclass(frozen=True)
class LengthCoverage:
    """Coverage by length, the shortest first, and Spearman's rank correlation of the two.

    ``correlation`` and its two-sided ``p_value`` (normal approximation, prompts as units) are None where
    all lengths or all shares are equal. Equal lengths stay together, so there can be fewer than ten parts.
    """

    deciles: tuple[Decile, ...]
    correlation: float | None
    p_value: float | None

    @property
    def skewed(self) -> bool:
        """Whether length tells what is missing: p below 0.001 on 30 prompts or more."""
        enough = sum(each.prompts for each in self.deciles) >= FEWEST_PROMPTS
        return enough and self.p_value is not None and self.p_value < SIGNIFICANT


def coverage_by_length(length: Floats, covered: Floats) -> LengthCoverage:
    """``length`` (P,) and ``covered`` (P,) in [0, 1]: the share of a prompt's rows that are there."""
    if len(length) == 0:
        return LengthCoverage((), None, None)
    edges = np.unique(np.quantile(length, np.arange(1, PARTS) / PARTS, method="inverted_cdf"))
    part = np.searchsorted(edges, length, side="left")
    deciles = []
    for number in range(len(edges) + 1):
        inside = part == number
        if inside.any():
            low, high = float(length[inside].min()), float(length[inside].max())
            deciles.append(Decile(low, high, int(inside.sum()), float(covered[inside].mean())))
    correlation = _rank_correlation(length, covered)
    p_value = None
    if correlation is not None:
        p_value = math.erfc(abs(correlation) * math.sqrt((len(length) - 1) / 2))
    return LengthCoverage(tuple(deciles), correlation, p_value)


def _rank_correlation(first: Floats, second: Floats) -> float | None:
    a, b = _centred_ranks(first), _centred_ranks(second)
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / scale if scale > 0 else None


def _centred_ranks(values: Floats) -> Floats:
    """Ranks with ties at their mean, less the mean of all."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[group]
    centred: Floats = ranks - ranks.mean()
    return centred
