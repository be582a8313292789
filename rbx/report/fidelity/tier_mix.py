"""Where requests went: shares of the tiers by policy and rate, live and simulated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rbx.report.point import Point


@dataclass(frozen=True)
class MixRow:
    """Shares of completed requests by tier; ``moved`` is the share that would have to change its tier."""

    source: str
    rate_per_s: float
    label: str
    live: dict[str, float]
    simulated: dict[str, float]

    @property
    def moved(self) -> float:
        """Half the sum of absolute differences: 0 for the same mix, 1 for disjoint ones."""
        tiers = {*self.live, *self.simulated}
        return sum(abs(self.live.get(tier, 0.0) - self.simulated.get(tier, 0.0)) for tier in tiers) / 2


def mix_rows(source: str, live: Sequence[Point], simulated: Sequence[Point]) -> Iterator[MixRow]:
    """One row for each point that is there in both."""
    again = {(point.rate_per_s, point.label): point for point in simulated}
    for point in live:
        found = again.get((point.rate_per_s, point.label))
        if found is not None:
            yield MixRow(
                source, point.rate_per_s, point.label, point.metrics.tier_share, found.metrics.tier_share
            )
