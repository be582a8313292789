"""Rules that know how far off predictions have been: the empirical CDF, and QLM's margin."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from rbx.heads.residuals import Residuals
from rbx.policy.filters.outlook import Floats, Outlook
from rbx.policy.filters.rule import Passing

Ints = NDArray[np.int64]

RELAX_STEP = 0.1
RELAX_ROUNDS = 3
LATENCIES = ("ttft", "tpot")  # in the order in which they are relaxed


class LikelyWithinTargets:
    """P(TTFT ≤ target) ≥ θ_ttft, P(TPOT ≤ target) ≥ θ_tpot and within budget.

    P is the share of a tier's held-out residuals (actual − predicted) up to target − prediction. Tiered, it
    lowers θ_ttft by 0.1, then θ_tpot, and again, up to three times each, until somebody passes; the budget
    is not relaxed: it is held or not.
    """

    def __init__(self, theta: float, tiered: bool, ttft: Residuals, tpot: Residuals, tier: Ints) -> None:
        """``tier`` (I,) numbers each instance's tier."""
        self._theta = theta
        self._steps = RELAX_ROUNDS * len(LATENCIES) if tiered else 0
        self._ttft, self._tpot = ttft, tpot
        self._tier = tier

    def passing(self, outlook: Outlook) -> Passing:
        """See ``Rule.passing``."""
        targets, affordable = outlook.targets, outlook.affordable
        ttft = self._likely(self._ttft, targets.ttft_s, outlook.ttft_s)
        tpot = self._likely(self._tpot, targets.tpot_s, outlook.tpot_s)
        passing = affordable
        for step in range(self._steps + 1):
            theta_ttft, theta_tpot = thetas(self._theta, step)
            passing = affordable & (ttft >= theta_ttft) & (tpot >= theta_tpot)
            if passing.any():
                return Passing(np.asarray(passing), step)
        return Passing(np.asarray(passing), self._steps)

    def _likely(self, residuals: Residuals, target_s: float, predicted_s: Floats) -> Floats:
        if target_s == np.inf:
            return np.ones(len(predicted_s))
        return residuals.share_within(target_s - predicted_s, self._tier)


def thetas(theta: float, step: int) -> tuple[float, float]:
    """θ of TTFT and of TPOT after ``step`` relaxations; rounded, since 0.7 − 0.1 − 0.1 is not 0.5."""
    rounds_ttft, rounds_tpot = (step + 1) // 2, step // 2
    return round(theta - RELAX_STEP * rounds_ttft, 9), round(theta - RELAX_STEP * rounds_tpot, 9)


class SafelyWithinTargets:
    """QLM: prediction + z·σ within both targets, σ of the tier's residuals, z of a one-sided interval."""

    def __init__(self, confidence: float, ttft: Residuals, tpot: Residuals, tier: Ints) -> None:
        """``tier`` (I,) numbers each instance's tier."""
        z = NormalDist().inv_cdf(confidence)
        self._ttft_margin_s: Floats = z * ttft.std_s[tier]
        self._tpot_margin_s: Floats = z * tpot.std_s[tier]

    def passing(self, outlook: Outlook) -> Passing:
        """See ``Rule.passing``."""
        targets = outlook.targets
        on_time = outlook.ttft_s + self._ttft_margin_s <= targets.ttft_s
        fast = outlook.tpot_s + self._tpot_margin_s <= targets.tpot_s
        return Passing(np.asarray(outlook.candidates & on_time & fast))
