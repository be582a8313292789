"""Points in their published order, against the order that our figures give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, combinations, pairwise

import numpy as np

from rbx.config.claims import OrderClaim
from rbx.report.claims.finding import OrderFinding
from rbx.report.fidelity.ordering import kendall_tau
from rbx.report.interval import Interval, not_estimable
from rbx.report.measured.estimate import difference
from rbx.report.measured.sample import Sample
from rbx.report.paired import from_replicates


def rank(claim: OrderClaim, samples: Sequence[Sample], *, higher: bool) -> OrderFinding:
    """``samples`` of the claim's points, in its order; the best is the highest where ``higher``.

    Points whose published figures are equal have no order that ours could keep or turn round.
    """
    places = _places(claim)
    gaps = {
        (i, j): difference(samples[i], samples[j]) if higher else difference(samples[j], samples[i])
        for i, j in combinations(range(len(samples)), 2)
        if places[i] != places[j]
    }
    neighbours = [pair for pair in gaps if pair[1] == pair[0] + 1]
    return OrderFinding(
        neighbours=tuple(gaps[pair] for pair in neighbours),
        required=tuple(_published_apart(claim, i) for i, _ in neighbours),
        reversed_pairs=tuple(pair for pair, gap in gaps.items() if gap.is_below_zero),
        tau=_tau(places, samples, higher),
    )


def _places(claim: OrderClaim) -> list[int]:
    """Published place of each point, the best 0; equal figures share one."""
    shown = claim.published or range(len(claim.points))
    return list(accumulate((here != before for before, here in pairwise(shown)), initial=0))


def _published_apart(claim: OrderClaim, i: int) -> bool:
    """Whether the published intervals of a point and the next one, where there are any, do not overlap."""
    if claim.published_intervals is None:
        return True
    (low, high), (next_low, next_high) = claim.published_intervals[i : i + 2]
    return high < next_low or next_high < low


def _tau(places: Sequence[int], samples: Sequence[Sample], higher: bool) -> Interval:
    """Kendall's tau-b between the published order and ours, on every resample."""
    published = -np.array(places, dtype=np.float64)[:, None]
    sense = 1.0 if higher else -1.0
    values = sense * np.array([[sample.value] for sample in samples])
    if np.isnan(values).any():
        return not_estimable(math.nan, "a point has no value")
    value = float(kendall_tau(published, values)[0])
    replicates = [sample.replicates for sample in samples if sample.replicates is not None]
    if len(replicates) < len(samples):
        return not_estimable(value, next(sample.reason for sample in samples if sample.replicates is None))
    drawn = kendall_tau(published, sense * np.array(replicates))
    return from_replicates(value, drawn, min(each.n_prompts for each in samples))
