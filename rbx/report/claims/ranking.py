"""Points in their published order, against the order that our figures give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from rbx.config.claims import OrderClaim
from rbx.report.bootstrap import bounds
from rbx.report.claims.finding import OrderFinding
from rbx.report.fidelity.ordering import kendall_tau
from rbx.report.interval import Interval, not_estimable, percentile_interval
from rbx.report.measured.estimate import difference
from rbx.report.measured.sample import Sample


def rank(claim: OrderClaim, samples: Sequence[Sample], *, higher: bool) -> OrderFinding:
    """``samples`` of the claim's points, in its order; the best is the highest where ``higher``."""
    gaps = {
        (i, j): difference(samples[i], samples[j]) if higher else difference(samples[j], samples[i])
        for i, j in combinations(range(len(samples)), 2)
    }
    neighbours = [(i, i + 1) for i in range(len(samples) - 1)]
    return OrderFinding(
        neighbours=tuple(gaps[pair] for pair in neighbours),
        required=tuple(_published_apart(claim, i) for i, _ in neighbours),
        reversed_pairs=tuple(pair for pair, gap in gaps.items() if gap.excludes_zero and gap.value < 0),
        tau=_tau(samples, higher),
    )


def _published_apart(claim: OrderClaim, i: int) -> bool:
    """Whether a point and the next one were published as different: neither tied nor of one interval."""
    if claim.published is not None and claim.published[i] == claim.published[i + 1]:
        return False
    if claim.published_intervals is None:
        return True
    (low, high), (next_low, next_high) = claim.published_intervals[i : i + 2]
    return high < next_low or next_high < low


def _tau(samples: Sequence[Sample], higher: bool) -> Interval:
    """Kendall's tau-b between the published order and ours, on every resample."""
    published = np.arange(len(samples), 0, -1, dtype=np.float64)[:, None]
    sense = 1.0 if higher else -1.0
    values = sense * np.array([[sample.value] for sample in samples])
    if np.isnan(values).any():
        return not_estimable(math.nan, "a point has no value")
    value = float(kendall_tau(published, values)[0])
    replicates = [sample.replicates for sample in samples if sample.replicates is not None]
    if len(replicates) < len(samples):
        return not_estimable(value, next(sample.reason for sample in samples if sample.replicates is None))
    low, high = bounds(kendall_tau(published, sense * np.array(replicates)))
    return percentile_interval(value, float(low), float(high), min(each.n_prompts for each in samples))
