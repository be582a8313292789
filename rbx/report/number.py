"""How numbers are written: three significant digits, a dash for what is not known."""

from __future__ import annotations

import math
from collections.abc import Callable

from rbx.report.interval import Interval

UNKNOWN = "–"
NO_SPREAD = "same in every resample"
NO_INTERVAL = "not estimable"
_MINUS = "−"


def significant(value: float, digits: int = 3) -> str:
    """``0.0123``, ``1.23``, ``12.3``, ``1,234``: never in exponents."""
    if not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 9)}f}".replace("-", _MINUS)


def score(value: float) -> str:
    """A quality with three decimals."""
    return f"{value:.3f}".replace("-", _MINUS) if math.isfinite(value) else UNKNOWN


def percent(share: float, decimals: int = 0) -> str:
    """A share in per cent; one that is not zero or one never looks as if it were."""
    if not math.isfinite(share):
        return UNKNOWN
    text = f"{100 * share:.{decimals}f}"
    if 0 < abs(share) < 1 and abs(float(text)) in (0.0, 100.0) and decimals < 3:
        return percent(share, decimals + 1)
    return f"{text.replace('-', _MINUS)} %"


def milliseconds(seconds: float) -> str:
    """Seconds written as milliseconds."""
    return significant(1000 * seconds)


def usd_per_thousand(usd: float) -> str:
    """USD a request written as USD per 1,000 requests."""
    return significant(1000 * usd)


def signed(text: str) -> str:
    """Put a plus before what is not negative, zero or unknown."""
    return text if text.startswith((_MINUS, UNKNOWN)) or text.strip("0. %") == "" else f"+{text}"


def span(interval: Interval, write: Callable[[float], str]) -> str:
    """``[low, high]``, or the state of an interval that says nothing."""
    if interval.status != "ok":
        return NO_SPREAD if interval.status == "degenerate" else NO_INTERVAL
    return f"[{write(interval.low)}, {write(interval.high)}]"
