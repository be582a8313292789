"""Why a lead is not sure, in words."""

from __future__ import annotations

import math

from rbx.report.dominance import QUALITY_MARGIN, Trade
from rbx.report.number import score, signed


def doubt_words(trades: list[Trade]) -> str:
    """What keeps leads of these trades from being sure: their gain, their quality, or both.

    Empty where all are sure. Several trades share a reason: the lowest end of their intervals is named.
    """
    unsure = [trade for trade in trades if not trade.is_sure]
    reasons = []
    if any(not trade.saving.is_above_zero for trade in unsure):
        reasons.append("the interval of the gain is not wholly above zero")
    lows = [trade.quality_gain.low for trade in unsure if not trade.keeps_quality]
    if any(math.isnan(low) for low in lows):
        reasons.append("the difference in quality has no interval")
    elif lows:
        reasons.append(
            f"the interval of the difference in quality reaches down to {signed(score(min(lows)))}, "
            f"below −{QUALITY_MARGIN:g}"
        )
    return " and ".join(reasons)
