"""How many prompts each source gives: by share, within what it has, what it lacks given by the others."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def quotas(total: int, shares: Sequence[float], capacities: Sequence[int]) -> list[int]:
    """Whole numbers that sum to min(total, sum of capacities), in proportion to ``shares``.

    A source whose part is more than it has gives all it has, and the others share the rest in proportion
    to their shares, until none is short; then the parts are rounded by largest remainder, the earlier
    source first where remainders are equal (facts of RouteBalance's collection). Shares are above 0.
    """
    given = [0] * len(shares)
    left = min(total, sum(capacities))
    open_sources = list(range(len(shares)))
    exact = [Fraction(share) for share in shares]
    while True:
        whole = sum(exact[source] for source in open_sources)
        parts = {source: left * exact[source] / whole for source in open_sources}
        short = [source for source in open_sources if parts[source] > capacities[source]]
        if not short:
            break
        for source in short:
            given[source] = capacities[source]
            left -= capacities[source]
        open_sources = [source for source in open_sources if source not in short]
    for source in open_sources:
        given[source] = int(parts[source])
    lacking = left - sum(given[source] for source in open_sources)
    by_remainder = sorted(open_sources, key=lambda source: (given[source] - parts[source], source))
    for source in by_remainder[:lacking]:
        given[source] += 1
    return given
