"""The rules of the verdicts. ``docs/claims.md`` states them for readers.

A claim *holds* where the evidence supports it, *does not hold* where it speaks against it, and is *not
clear* otherwise. That evidence is our interval, except that a figure is close by its estimate: a direction,
a bound or an order is never met for want of data.
"""

from __future__ import annotations

import math

from rbx.config.claims import BoundClaim, DifferenceClaim, RatioClaim, SignClaim, ValueClaim
from rbx.report.claims.finding import Finding, OrderFinding, Verdict
from rbx.report.claims.off_by import off_by
from rbx.report.interval import Interval

Ends = tuple[float, float]


def judge_value(claim: ValueClaim, ours: Interval) -> Finding:
    """Close to the published value, or not."""
    return _closeness(ours, claim.published, value_band(claim), claim.published_interval, None)


def judge_ratio(claim: RatioClaim, ours: Interval) -> Finding:
    """Close to the published ratio, or not; its direction is that against 1."""
    direction = None
    if claim.published != 1.0 and math.isfinite(ours.value):
        direction = (ours.value > 1.0) == (claim.published > 1.0) and ours.value != 1.0
    reach = claim.tolerance * claim.published
    band = claim.published - reach, claim.published + reach
    return _closeness(ours, claim.published, band, claim.published_interval, direction)


def value_band(claim: ValueClaim) -> Ends:
    """What counts as close to the published value."""
    reach = claim.tolerance * abs(claim.published) if claim.absolute is None else claim.absolute
    return claim.published - reach, claim.published + reach


def judge_difference(claim: DifferenceClaim, ours: Interval) -> Finding:
    """Same sign and clear, where a difference was published; not clear, where none was."""
    if math.isnan(ours.value):
        return Finding("not clear", f"no value: {ours.reason}", ours)
    significant = claim.published_significant
    none_claimed = significant is False or (significant is None and claim.published == 0.0)
    same = None if claim.published == 0.0 else ours.value * claim.published > 0
    alike = None
    if significant is not None and _tells_of_a_difference(ours):
        alike = ours.excludes_zero == significant and (not significant or bool(same))
    verdict, why = _no_difference(ours) if none_claimed else _direction(ours, bool(same))
    return Finding(
        verdict,
        why,
        ours,
        covers=_covers(ours, claim.published),
        overlaps=_overlaps(ours, claim.published_interval),
        direction=same,
        clear=ours.excludes_zero,
        significance=alike,
    )


def judge_sign(claim: SignClaim, ours: Interval) -> Finding:
    """The published direction, and clear."""
    if math.isnan(ours.value):
        return Finding("not clear", f"no value: {ours.reason}", ours)
    same = ours.value > 0 if claim.published == ">" else ours.value < 0
    verdict, why = _direction(ours, same)
    return Finding(verdict, why, ours, direction=same, clear=ours.excludes_zero)


def judge_bound(claim: BoundClaim, ours: Interval) -> Finding:
    """The whole interval within the bounds, or wholly outside of them."""
    low = -math.inf if claim.at_least is None else claim.at_least
    high = math.inf if claim.at_most is None else claim.at_most
    if math.isnan(ours.value):
        return Finding("not clear", f"no value: {ours.reason}", ours)
    within = low <= ours.value <= high
    words = "within the bound" if within else "outside the bound"
    if ours.status == "not_estimable":
        return Finding("not clear", f"{words} by the estimate, which has no interval: {ours.reason}", ours)
    if low <= ours.low and ours.high <= high:
        return Finding("holds", "the whole interval is within the bound", ours)
    if ours.high < low or ours.low > high:
        return Finding("does not hold", "the whole interval is outside the bound", ours)
    return Finding("not clear", f"{words} by the estimate; the interval reaches across it", ours)


def judge_order(found: OrderFinding) -> Finding:
    """No two clearly the other way round, and neighbours that were published apart in order and clear."""
    n = len(found.neighbours)
    told = f"{found.in_order} of {n} neighbours in the published order, {found.clear} of them clearly"
    if any(math.isnan(gap.value) for gap in found.neighbours):
        return Finding("not clear", "a point has no value", order=found)
    direction = found.in_order == n
    verdict: Verdict = "not clear"
    if found.reversed_pairs:
        verdict = "does not hold"
        told += f"; {len(found.reversed_pairs)} of all pairs clearly the other way round"
    elif found.clear_in_both == sum(found.required):
        verdict = "holds"
    return Finding(verdict, told, direction=direction, order=found)


def _direction(ours: Interval, same: bool) -> tuple[Verdict, str]:
    words = "same direction" if same else "no difference" if ours.value == 0 else "other direction"
    if ours.excludes_zero:
        return ("holds" if same else "does not hold"), f"{words}, and clear"
    if ours.status == "ok":
        return "not clear", f"{words} by the estimate, but the interval holds zero"
    return "not clear", f"{words} by the estimate, which has no interval: {ours.reason}"


def _no_difference(ours: Interval) -> tuple[Verdict, str]:
    """The claim that there is none: it is refuted by a clear one."""
    if ours.excludes_zero:
        return "does not hold", "published as no clear difference, clear here"
    if _tells_of_a_difference(ours):
        return "holds", "not clear here either"
    return "not clear", f"there is no interval: {ours.reason}"


def _tells_of_a_difference(ours: Interval) -> bool:
    """Whether it says that there is a difference, or that there is none: equal in every resample is none."""
    return ours.status == "ok" or (ours.status == "degenerate" and ours.value == 0.0)


def _closeness(
    ours: Interval, published: float, band: Ends, published_interval: Ends | None, direction: bool | None
) -> Finding:
    if math.isnan(ours.value):
        return Finding("not clear", f"no value: {ours.reason}", ours)
    error = ours.value / published - 1.0 if published else None
    low, high = band
    near = low <= ours.value <= high
    allowed = f"{published:g} ± {(high - low) / 2:.3g}"
    away = allowed if error is None else off_by(error)
    verdict: Verdict = "holds"
    if near:
        why = "the published figure" if ours.value == published else f"close to the published figure ({away})"
    elif ours.status == "ok" and ours.low <= high and ours.high >= low:
        verdict, why = "not clear", f"{away}, but our interval reaches what counts as close"
    elif _overlaps(ours, published_interval):
        verdict, why = "not clear", f"{away}, but the two intervals overlap"
    else:
        verdict, why = "does not hold", f"{away}: further off than counts as close"
    return Finding(
        verdict,
        why,
        ours,
        relative_error=error,
        covers=_covers(ours, published),
        overlaps=_overlaps(ours, published_interval),
        direction=direction,
        clear=None if direction is None else ours.status == "ok" and (ours.low > 1.0 or ours.high < 1.0),
    )


def _covers(ours: Interval, published: float) -> bool | None:
    return None if ours.status != "ok" else ours.low <= published <= ours.high


def _overlaps(ours: Interval, published: Ends | None) -> bool | None:
    if published is None or ours.status != "ok":
        return None
    return ours.low <= published[1] and ours.high >= published[0]
