"""How far off predictions have been: actual − predicted of held-out requests, tier by tier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rbx.compiled import njit
from rbx.errors import BundleError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Residuals:
    """``seconds`` of all tiers in turn, each ascending; tier t has ``starts[t]:starts[t + 1]``."""

    seconds: Floats
    starts: Ints

    @classmethod
    def of(cls, by_tier: Sequence[Floats]) -> Residuals:
        """From each tier's residuals, in any order."""
        ends = np.cumsum([0, *(len(values) for values in by_tier)]).astype(np.int64)
        return cls(np.concatenate([np.sort(values) for values in by_tier]), ends)

    def __post_init__(self) -> None:
        """Raise ``BundleError`` unless every tier has residuals, finite and ascending."""
        starts, seconds = self.starts, self.seconds
        whole = len(starts) >= 2 and starts[0] == 0 and starts[-1] == len(seconds)
        if not (whole and (np.diff(starts) > 0).all() and np.isfinite(seconds).all()):
            raise BundleError("residuals: a tier has none, or one that is no finite number")
        within = np.ones(max(len(seconds) - 1, 0), dtype=np.bool_)
        within[starts[1:-1] - 1] = False
        if (np.diff(seconds)[within] < 0.0).any():
            raise BundleError("residuals: those of a tier do not ascend")

    def of_tier(self, tier: int) -> Floats:
        """Those of one tier, ascending."""
        return self.seconds[self.starts[tier] : self.starts[tier + 1]]

    @cached_property
    def std_s(self) -> Floats:
        """Standard deviation of each tier's, (T,)."""
        return np.array([self.of_tier(tier).std() for tier in range(len(self.starts) - 1)])

    def share_within(self, slack_s: Floats, tier: Ints) -> Floats:
        """P(actual ≤ predicted + slack) of each instance (I,): the empirical distribution of its tier."""
        shares: Floats = _share_within(self.seconds, self.starts, slack_s, tier)
        return shares


@njit(cache=True)
def _share_within(seconds: Floats, starts: Ints, slack_s: Floats, tier: Ints) -> Floats:
    share = np.empty(len(slack_s))
    for i in range(len(slack_s)):
        first, low, high = starts[tier[i]], starts[tier[i]], starts[tier[i] + 1]
        n = high - low
        while low < high:
            middle = (low + high) // 2
            if seconds[middle] <= slack_s[i]:
                low = middle + 1
            else:
                high = middle
        share[i] = (low - first) / n
    return share
