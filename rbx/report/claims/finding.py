"""What a claim came to: the verdict, and everything that is counted of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rbx.report.interval import Interval

Verdict = Literal["holds", "does not hold", "not clear", "not run"]
VERDICTS: tuple[Verdict, ...] = ("holds", "not clear", "does not hold", "not run")


@dataclass(frozen=True)
class OrderFinding:
    """Points in their published order: how ours stand.

    ``neighbours`` are better − worse of each two that were published next to each other and not as equal, in
    the metric's own sense: above zero means as published. ``required`` says which of them were published
    apart, so that they must be clear here. ``reversed_pairs`` name pairs of any two, not published as equal,
    that are clearly the other way round.
    """

    neighbours: tuple[Interval, ...]
    required: tuple[bool, ...]
    reversed_pairs: tuple[tuple[int, int], ...]
    tau: Interval

    @property
    def in_order(self) -> int:
        """Neighbours in their published order, by the estimates."""
        return sum(gap.value > 0 for gap in self.neighbours)

    @property
    def clear(self) -> int:
        """Neighbours in their published order with an interval that excludes zero."""
        return sum(gap.value > 0 and gap.excludes_zero for gap in self.neighbours)

    @property
    def clear_in_both(self) -> int:
        """Neighbours published apart and clear here."""
        return sum(
            needed and gap.value > 0 and gap.excludes_zero
            for gap, needed in zip(self.neighbours, self.required, strict=True)
        )


@dataclass(frozen=True)
class Finding:
    """``why`` is the verdict in a sentence. None stands for what such a claim does not have.

    ``relative_error``: ours ÷ published − 1, of values and ratios. ``covers``: whether our interval holds
    the published figure. ``overlaps``: whether the two intervals do. ``direction``: whether ours points the
    same way, by the estimates; ``clear``: whether our interval excludes no difference.
    ``significance``: whether both are, or neither is, significant.
    """

    verdict: Verdict
    why: str
    ours: Interval | None = None
    relative_error: float | None = None
    covers: bool | None = None
    overlaps: bool | None = None
    direction: bool | None = None
    clear: bool | None = None
    significance: bool | None = None
    order: OrderFinding | None = None
