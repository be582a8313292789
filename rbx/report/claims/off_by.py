"""A relative error in words."""

from __future__ import annotations

from rbx.report.number import percent, signed, significant

_SHOWN_AS_A_FACTOR = 1.0


def off_by(error: float) -> str:
    """``+12 %`` or ``−30 %``; above twice as much a factor: ``8.4 ×``."""
    return f"{significant(1 + error)} ×" if error > _SHOWN_AS_A_FACTOR else signed(percent(error))
