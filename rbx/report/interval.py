"""An estimate with its interval, or the reason why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "degenerate", "not_estimable"]


@dataclass(frozen=True)
class Interval:
    """``value`` with a percentile interval [``low``, ``high``].

    ``degenerate``: every resample gave the same value, so the width says nothing about uncertainty.
    ``not_estimable``: low and high are NaN and ``reason`` says why; ``value`` may still be known.
    """

    value: float
    low: float
    high: float
    status: Status
    reason: str = ""

    @property
    def excludes_zero(self) -> bool:
        """Whether an estimable interval lies wholly on one side of zero."""
        return self.is_above_zero or self.is_below_zero

    @property
    def is_above_zero(self) -> bool:
        """Whether an estimable interval lies wholly above zero: a degenerate one tells nothing."""
        return self.status == "ok" and self.low > 0

    @property
    def is_below_zero(self) -> bool:
        """The same below zero."""
        return self.status == "ok" and self.high < 0


def not_estimable(value: float, reason: str) -> Interval:
    """An interval that does not exist, and why."""
    return Interval(value, math.nan, math.nan, "not_estimable", reason)


def percentile_interval(
    value: float, low: float, high: float, n_drawn: int, *, scale: float = 0.0, drawn: str = "prompts"
) -> Interval:
    """Judge the two percentiles of a statistic's replicates, taken over ``n_drawn`` units.

    NaN percentiles mean that some resample held nothing to average. ``scale`` is the size of the
    terms of a difference: a width below the rounding error of such terms counts as none. ``drawn``
    names the units.
    """
    if math.isnan(value):
        return not_estimable(value, "no value to average")
    if n_drawn < 2:
        return not_estimable(value, f"resampling needs at least 2 {drawn}, there is {n_drawn}")
    if math.isnan(low) or math.isnan(high):
        return not_estimable(value, "some resamples hold no value to average")
    if high - low <= 1e-12 * max(scale, abs(value)):
        return Interval(value, low, high, "degenerate", "every resample gives the same value")
    return Interval(value, low, high, "ok")
