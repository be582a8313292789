"""The answer in plain words: what was run, where RouteBalance wins, by how much, and where not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rbx.report.analysis import Analysis, RateResult
from rbx.report.dominance import Duel, Trade
from rbx.report.number import percent, score
from rbx.report.plane import PLANES, Plane
from rbx.report.point import Point
from rbx.report.sweep_tables import saved
from rbx.report.table import Value, change


@dataclass(frozen=True)
class Headline:
    """``run`` says what stands behind the numbers; the lists hold one sentence an item."""

    run: str
    wins: tuple[str, ...]
    losses: tuple[str, ...]
    warnings: tuple[str, ...]


def headline(analysis: Analysis) -> Headline:
    """Compose the sentences at the top of the page."""
    return Headline(
        run=what_was_run(analysis),
        wins=tuple(_wins(analysis)),
        losses=tuple(_losses(analysis)),
        warnings=tuple(_warnings(analysis)),
    )


def kinds(analysis: Analysis) -> tuple[str, ...]:
    """``SYNTHETIC GRID`` and ``SIMULATED ENGINE`` where they apply."""
    manifest = analysis.sweep.manifest
    marks = (("synthetic_grid", "SYNTHETIC GRID"), ("simulated", "SIMULATED ENGINE"))
    return tuple(words for key, words in marks if manifest.get(key))


def what_was_run(analysis: Analysis) -> str:
    """Policies, rates, seeds, prompts, pool, engine and labels in one or two sentences."""
    manifest, sweep = analysis.sweep.manifest, analysis.sweep
    policies = len({result.point.label for result in analysis.results})
    rates = ", ".join(f"{rate.rate_per_s:g}" for rate in analysis.rates)
    seeds = sorted({cell.spec.seed for cell in sweep.cells})
    pool = manifest.get("pool") or {}
    grid = manifest.get("grid") or {}
    requests = sum(cell.spec.n_requests for cell in sweep.cells)
    served = (
        "Latency and throughput come from a simulated engine in virtual time, not from servers."
        if manifest.get("simulated")
        else "Requests were served by live servers."
    )
    labels = (
        "Prompts and scores are synthetic: read the shape, not the level."
        if manifest.get("synthetic_grid")
        else f"Quality is looked up in grid {grid.get('name', '?')} (metric {grid.get('metric', '?')})."
    )
    return (
        f"{_plural(policies, 'policy', 'policies')} at {_plural(len(analysis.rates), 'arrival rate')} "
        f"({rates} requests per second), seed{'s' if len(seeds) > 1 else ''} "
        f"{', '.join(map(str, seeds))}: {_plural(len(sweep.cells), 'cell')}, {requests:,} requests over "
        f"{len(sweep.prompt_ids):,} prompts, on pool {pool.get('name', '?')} "
        f"({_plural(len(pool.get('instances', [])), 'instance')}, "
        f"{_plural(len(pool.get('tiers', [])), 'tier')}). "
        f"{served} {labels}"
    )


def _plural(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _wins(analysis: Analysis) -> Iterable[str]:
    found = [(rate, duel) for rate in analysis.rates for duel in rate.duels]
    if not found:
        yield "No comparison: the sweep lacks RouteBalance cells, or policies to compare them with."
        return
    passthrough = [(r, d) for r, d in found if d.baseline.family == "passthrough"]
    for plane in PLANES:
        for words, group in (("passthrough", passthrough), ("all other", found)):
            mine = [(r, d) for r, d in group if d.plane is plane]
            if mine and (words == "passthrough" or not passthrough):
                yield _tally(plane, words, mine)


def _overload(analysis: Analysis) -> Iterable[str]:
    """How many of the compared points do not keep up: leads over those grow with the length of the run."""
    found = [(rate, duel) for rate in analysis.rates for duel in rate.duels]
    passthrough = [(r, d) for r, d in found if d.baseline.family == "passthrough"]
    words = "passthrough" if passthrough else "other"
    points = _compared(passthrough or found)
    others = [point for point in points if not point.is_fused]
    behind = sum(point.is_overloaded for point in others)
    fused = [point for point in points if point.is_fused]
    fused_behind = sum(point.is_overloaded for point in fused)
    if behind or fused_behind:
        yield (
            f"{behind} of {len(others)} {words} cells compared, and {fused_behind} of {len(fused)} "
            "RouteBalance cells, do not keep up with their arrivals: their latencies grow with the length of "
            "the run."
        )


def _compared(found: list[tuple[RateResult, Duel]]) -> list[Point]:
    """The policies that duels were fought with, and all RouteBalance points of their rates."""
    points = [duel.baseline for _, duel in found]
    points += [result.point for rate, _ in found for result in rate.results if result.point.is_fused]
    return list({id(point): point for point in points}.values())


def _tally(plane: Plane, words: str, mine: list[tuple[RateResult, Duel]]) -> str:
    won = [(r, d) for r, d in mine if d.won]
    sure = [d for _, d in won if d.verdict in ("both", "one")]
    cells = f"{words} cell{'s' if len(mine) > 1 else ''} (rate × dispatcher)"
    start = f"{plane.title}: RouteBalance dominates {len(won)} of {len(mine)} {cells}"
    if not won:
        return f"{start}."
    sentence = f"{start}, {len(sure)} of them with an interval that excludes zero"
    leads = [(r, d, d.at_quality_kept_up) for r, d in won if d.at_quality_kept_up is not None]
    leads = [lead for lead in leads if lead[2].saving.value >= 0]
    if not leads:
        return f"{sentence}; none where both keep up, so no saving is named."
    rate, duel, best = max(leads, key=lambda lead: _relative(plane, lead[1], lead[2]))
    share = _relative(plane, duel, best)
    among = ""
    if any(point.is_overloaded for point in _compared(mine)):
        both = duel.baseline.keeps_up and best.point.keeps_up
        among = " where both keep up," if both else " where neither is known to fall behind,"
    quality = _with_interval(None, change(best.quality_gain, score, lower_is_better=False))
    return (
        f"{sentence}. Widest{among} at λ = {rate.rate_per_s:g} against {duel.baseline.label}: "
        f"{_with_interval(plane, saved(plane, best.saving))} ({percent(share)} better) at quality "
        f"{quality}, by {best.point.label}."
    )


def _relative(plane: Plane, duel: Duel, trade: Trade) -> float:
    """What the trade saves as a share of the baseline's own figure; 0 where that is zero."""
    own = abs(plane.value(duel.baseline))
    return trade.saving.value / own if own > 0 else 0.0


def _losses(analysis: Analysis) -> Iterable[str]:
    """Passthrough by rate and plane; other policies gathered by plane, their details left to the table."""
    lost = [(r, d) for r in analysis.rates for d in r.duels if d.verdict == "no"]
    for rate in analysis.rates:
        for plane in PLANES:
            mine = [d for r, d in lost if r is rate and d.plane is plane]
            if mine := [duel for duel in mine if duel.baseline.family == "passthrough"]:
                nearest = "; ".join(_nearest(duel) for duel in mine)
                yield f"{plane.title} at λ = {rate.rate_per_s:g}, no cell as good in both as: {nearest}."
    for plane in PLANES:
        others: dict[str, list[str]] = {}
        for rate, duel in lost:
            if duel.plane is plane and duel.baseline.family != "passthrough":
                others.setdefault(duel.baseline.label, []).append(f"{rate.rate_per_s:g}")
        if others:
            names = "; ".join(f"{label} (λ = {', '.join(rates)})" for label, rates in others.items())
            yield f"{plane.title}, not dominated either: {names}."


def _nearest(duel: Duel) -> str:
    """The baseline, and what the nearest RouteBalance cell of at least its quality costs on the axis."""
    named = f"{duel.baseline.label}{_overload_words(duel.baseline)}"
    if duel.at_quality is None:
        return f"{named} (none reaches its quality of {score(duel.baseline.metrics.quality_mean)})"
    shown = _with_interval(duel.plane, saved(duel.plane, duel.at_quality.saving))
    nearest = duel.at_quality.point
    return f"{named} (at its quality or more {shown}, by {nearest.label}{_overload_words(nearest)})"


def _overload_words(point: Point) -> str:
    return ", which does not keep up," if point.is_overloaded else ""


def _with_interval(plane: Plane | None, value: Value) -> str:
    """Figure and interval; a figure of the whole cell has none."""
    return value.text if plane is not None and plane.metric is None else f"{value.text} {value.sub}".strip()


def _warnings(analysis: Analysis) -> Iterable[str]:
    sweep = analysis.sweep
    if sweep.invalid:
        yield f"{_plural(len(sweep.invalid), 'cell')} can't be reported; the reasons are listed below."
    if sweep.missing:
        yield f"The sweep is unfinished: {_plural(len(sweep.missing), 'cell')} of the plan were not run."
    failed = sum(cell.summary.scheduled - cell.summary.ok for cell in sweep.cells)
    if failed:
        total = sum(cell.summary.scheduled for cell in sweep.cells)
        yield (
            f"{failed:,} of {total:,} requests did not complete ({percent(failed / total, 2)}). They are "
            "left out of latency means and count against throughput, targets and utility."
        )
    if sweep.unmatched:
        yield f"{sweep.unmatched:,} completed requests have no score and are left out of quality means."
    yield from _overload(analysis)
    fallback = [r.point.label for r in analysis.results if r.point.metrics.fallback_share > 0]
    if fallback:
        names = ", ".join(dict.fromkeys(fallback))
        yield f"Some requests were decided without estimates (fallback): {names}."
    late = [
        r.point
        for r in analysis.results
        if _under_driven(r.point.rate_per_s, r.point.metrics.achieved_rate_per_s)
    ]
    if late and not analysis.sweep.manifest.get("simulated"):
        yield f"The client sent at less than 95 % of the asked rate in {_plural(len(late), 'point')}."


def _under_driven(asked_per_s: float, sent_per_s: float) -> bool:
    return bool(sent_per_s < 0.95 * asked_per_s)
