"""The answer in a few sentences: RouteBalance against the baseline and the rest, or else who leads.

Each list holds at most one sentence a plane; what differs by rate and policy stands in tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rbx.report.analysis import Analysis, RateResult
from rbx.report.dominance import QUALITY_MARGIN, Duel
from rbx.report.doubt import doubt_words
from rbx.report.number import significant, usd_per_thousand
from rbx.report.plane import PLANES, Plane

Fought = list[tuple[RateResult, Duel]]

_SAVED: dict[str, Callable[[str], str]] = {
    "latency": lambda amount: f"{amount} s faster",
    "throughput": lambda amount: f"{amount} req/s more",
    "cost": lambda amount: f"${amount} per 1,000 requests cheaper",
}
_LOST: dict[str, Callable[[str], str]] = {
    "latency": lambda amount: f"{amount} s slower",
    "throughput": lambda amount: f"{amount} req/s less",
    "cost": lambda amount: f"${amount} per 1,000 requests dearer",
}
SURE_WORDS: dict[str, str] = {
    "latency": "latency interval below zero",
    "throughput": "throughput interval above zero",
    "cost": "cost interval below zero",
}
_BEST: dict[str, str] = {"latency": "Fastest", "throughput": "Highest throughput", "cost": "Cheapest"}
_NAMED = 3  # policies or rates that a sentence names; more are counted


@dataclass(frozen=True)
class AnswerList:
    """A heading, at most three sentences, and what must be known to read them."""

    title: str
    lines: tuple[str, ...]
    note: str = ""


def answer(analysis: Analysis) -> tuple[AnswerList, ...]:
    """The lists at the top of the page; without RouteBalance, or without a rival, those of the leaders."""
    fought = [(rate, duel) for rate in analysis.rates for duel in rate.duels]
    if not fought:
        return _leaders(analysis)
    against = [(rate, duel) for rate, duel in fought if duel.baseline.label == analysis.baseline_label]
    lists = []
    if against:
        lines = tuple(_against_baseline(plane, _of(plane, against)) for plane in PLANES)
        lists.append(
            AnswerList(f"RouteBalance against {analysis.baseline_label}", lines, _how_compared(analysis))
        )
    rivals, words = compared(fought)
    lines = tuple(_tally(plane, words, _of(plane, rivals)) for plane in PLANES)
    title = f"RouteBalance against all {words} policies"
    note = _how_picked(analysis) if lists else _how_compared(analysis)
    return (*lists, AnswerList(title, lines, note), _standing(fought))


def compared(fought: Fought) -> tuple[Fought, str]:
    """The comparisons that the tally is over: passthrough where there is any, and what they are called."""
    passthrough = [(rate, duel) for rate, duel in fought if duel.baseline.family == "passthrough"]
    return (passthrough, "passthrough") if passthrough else (fought, "other")


def few(names: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``, ``a, b, c and 4 more``."""
    unique = list(dict.fromkeys(names))
    rest = len(unique) - _NAMED
    shown = [*unique[:_NAMED], f"{rest} more"] if rest > 0 else unique
    return " and ".join(part for part in (", ".join(shown[:-1]), shown[-1]) if part) if shown else ""


def at_rates(rates: list[RateResult], of: int) -> str:
    """``at every rate``, ``at λ = 6 and 12`` or, where many, ``at 5 of 9 rates``."""
    if len(rates) == of:
        return "at every rate" if of > 1 else f"at λ = {rates[0].rate_per_s:g}"
    if len(rates) > _NAMED:
        return f"at {len(rates)} of {of} rates"
    return f"at λ = {few([f'{rate.rate_per_s:g}' for rate in rates])}"


def lost_range(plane: Plane, mine: list[Duel]) -> str:
    """What the nearest cells of at least a rival's quality lose to it on the axis; empty where none does."""
    savings = [duel.at_quality.saving.value for duel in mine if duel.at_quality is not None]
    return _range(plane, [-saving for saving in savings if saving < 0], _LOST)


def _of(plane: Plane, fought: Fought) -> Fought:
    return [(rate, duel) for rate, duel in fought if duel.plane is plane]


def _subject(plane: Plane) -> str:
    return plane.name.capitalize()


def _range(plane: Plane, amounts: list[float], words: dict[str, Callable[[str], str]]) -> str:
    if not amounts:
        return ""
    write = usd_per_thousand if plane.name == "cost" else significant
    low, high = write(min(amounts)), write(max(amounts))
    return words[plane.name](low if low == high else f"{low} to {high}")


def _against_baseline(plane: Plane, mine: Fought) -> str:
    won = [rate for rate, duel in mine if duel.won]
    sure = [rate for rate, duel in mine if duel.verdict == "sure"]
    lost = [duel for _, duel in mine if duel.verdict == "no"]
    if not won and not lost:
        return f"{_subject(plane)}: no comparison, as a figure is missing."
    if not won:
        nearest = lost_range(plane, lost)
        best = (
            f"the best cell of at least its quality is {nearest}" if nearest else "none reaches its quality"
        )
        return f"{_subject(plane)}: ahead at no rate; {best}."
    unsure = [
        duel.at_quality for _, duel in mine if duel.verdict == "estimate" and duel.at_quality is not None
    ]
    why = f", as {words}" if (words := doubt_words(unsure)) else ""
    some = f"sure {at_rates(sure, len(mine))}, the rest not{why}" if sure else f"not surely{why}"
    surely = "surely so" if len(sure) == len(won) else some
    lead = f"{_subject(plane)}: ahead {at_rates(won, len(mine))}, {surely}"
    trades = [duel.at_quality_kept_up for _, duel in mine if duel.won and duel.at_quality_kept_up is not None]
    gained = _range(plane, [t.saving.value for t in trades if t.saving.value > 0], _SAVED)
    behind = f" Elsewhere {words}." if (words := lost_range(plane, lost)) else ""
    overloaded = any(
        point.is_overloaded
        for _, duel in mine
        for point in (duel.baseline, *([duel.at_quality.point] if duel.at_quality is not None else []))
    )
    fair = "at no loss of quality" + (" and where both keep up" if overloaded else "")
    saving = f"; {fair}, {gained}" if gained else "; no saving is named, as not both keep up"
    return f"{lead}{saving}.{behind}"


def _tally(plane: Plane, words: str, mine: Fought) -> str:
    won = [duel for _, duel in mine if duel.won]
    sure = sum(duel.verdict == "sure" for duel in won)
    sentence = f"{plane.title}: RouteBalance is ahead of {len(won)} of {len(mine)} {words} cells"
    if not won:
        return f"{sentence}."
    return (
        f"{sentence}; of these, {sure} {'is' if sure == 1 else 'are'} sure: {SURE_WORDS[plane.name]}, "
        f"and quality not worse by more than {QUALITY_MARGIN:g}."
    )


def _how_compared(analysis: Analysis) -> str:
    return (
        "A cell is one policy at one rate. Ahead: some RouteBalance cell of the rate is at least as good "
        f"in both quality and the figure named, and better in one. {_how_picked(analysis)}"
    ).strip()


def _how_picked(analysis: Analysis) -> str:
    fused = len({result.point.label for result in analysis.results if result.point.is_fused})
    if fused == 1:
        return ""
    return (
        f"The RouteBalance cell is picked among {fused} on the very data it is judged by, so its lead is "
        "slightly optimistic."
    )


def _standing(fought: Fought) -> AnswerList:
    lines = []
    for plane in PLANES:
        mine = [duel for _, duel in _of(plane, fought)]
        stand = [duel for duel in mine if duel.verdict == "no"]
        if stand:
            names = few([duel.baseline.label for duel in stand])
            lines.append(f"{plane.title}: in {len(stand)} of {len(mine)} comparisons, with {names}.")
    if not lines:
        known = sum(duel.won for _, duel in fought)
        lines = [f"By the estimates it is ahead in {known} of {len(fought)} comparisons, and behind in none."]
    return AnswerList("Where RouteBalance is not ahead", tuple(lines))


def _leaders(analysis: Analysis) -> tuple[AnswerList, ...]:
    front = tuple(_front(analysis, plane) for plane in PLANES)
    best = tuple(line for plane in PLANES if (line := _winner(analysis, plane)))
    lists = [
        AnswerList(
            "Policies that no other beats",
            front,
            "No other is at least as good in both and better in one, by the estimates.",
        )
    ]
    if best:
        title = f"Best without loss of quality against {analysis.baseline_label}"
        note = "By the estimates; intervals of the differences stand in the table of the best policies."
        lists.append(AnswerList(title, best, note))
    return tuple(lists)


def _front(analysis: Analysis, plane: Plane) -> str:
    found = [f for rate in analysis.rates for f in rate.frontiers if f.plane is plane]
    labels = list(dict.fromkeys(label for frontier in found for label in frontier.non_dominated))
    total = len({result.point.label for result in analysis.results if not result.point.is_reference})
    if not labels:
        return f"{plane.title}: no policy has both figures."
    always = [label for label in labels if all(label in f.non_dominated for f in found)]
    where = "" if len(found) == 1 else f" at some rate, {len(always)} at every rate"
    return f"{plane.title}: {len(labels)} of {total}{where}: {few(always or labels)}."


def _winner(analysis: Analysis, plane: Plane) -> str:
    rates: dict[str, list[RateResult]] = {}
    for rate in analysis.rates:
        for winner in rate.winners:
            if winner.plane is plane:
                rates.setdefault(winner.result.point.label, []).append(rate)
    if not rates:
        return ""
    total = len(analysis.rates)
    ordered = sorted(rates.items(), key=lambda item: -len(item[1]))
    named = [f"{label} ({at_rates(found, total)})" for label, found in ordered]
    return f"{_BEST[plane.name]}: {few(named)}."
