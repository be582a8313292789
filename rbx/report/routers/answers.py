"""The answer in sentences: which router is best at what, and which claims do not hold.

A router is called surely better or worse where the paired interval of the difference excludes zero.
References take part in nothing here: they are told what no live request tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Protocol, TypeVar

import numpy as np

from rbx.report.answer import AnswerList
from rbx.report.bootstrap import LEVEL
from rbx.report.interval import Interval
from rbx.report.number import percent, score, signed, span, usd_per_thousand
from rbx.report.routers.allocation import BEST_SINGLE, ORACLE, PER_SOURCE, RANDOM
from rbx.report.routers.contender import is_reference
from rbx.report.routers.curves import Curve
from rbx.report.routers.flips import FlipRow
from rbx.report.routers.routed_quality import RoutedRow
from rbx.report.routers.study import RouterStudy
from rbx.report.routers.tables import percent_1

_MANY_TIES = 0.1  # a share of prompts worth a sentence


class _OfRouter(Protocol):
    @property
    def router(self) -> str: ...


_Row = TypeVar("_Row", bound=_OfRouter)
_Any = TypeVar("_Any")


def answers(study: RouterStudy) -> tuple[AnswerList, ...]:
    """Best at what; then what does not hold."""
    note = (
        f"Brackets: {100 * LEVEL:.0f} % intervals, paired by prompt; best is the highest estimate, not a "
        "sure one."
    )
    if fixed := _fixed(study):
        note += f" Not compared here, as they send every prompt to one model: {_names(fixed)}."
    return (
        AnswerList("Best at what", tuple(_best(study)), note),
        AnswerList("What does not hold", (*_choices_fail(study), *_robustness_fails(study))),
    )


def _best(study: RouterStudy) -> Iterator[str]:
    routers = [row for row in study.routers if not row.is_fixed]
    if routers:
        yield _quality(study, *_first(routers, lambda row: row.quality.value))
        yield from _thrift(routers)
        if study.material.population.is_informative.any():
            yield _hits(study, *_first(routers, lambda row: row.picks_informative.value))
    if ranked := [row for row in _rivals(study.concordance) if np.isfinite(row.macro.value)]:
        told, level = _first(ranked, lambda row: row.macro.value)
        index = "concordance" if study.material.population.is_graded else "AUC"
        mean = _plain(told.macro, score)
        yield f"Knows best which prompts a model answers (mean {index}): {told.router}{level}, {mean}."
    if calibrated := _rivals(study.calibration):
        honest, level = _first(calibrated, lambda row: -row.error.value)
        yield f"Best calibrated: {honest.router}{level}, error {_plain(honest.error, score)}."
    if curves := _swept(study):
        area, level = _first(curves, lambda curve: curve.area.value)
        yield (
            f"Over the whole range of costs (AIQ): {area.label}{level}, {_plain(area.area, score)}; "
            f"{_moved(area.against_singles, score)} to single models mixed at random."
        )
    yield from _steadiest(study)


def _first(rows: Sequence[_Any], value: Callable[[_Any], float]) -> tuple[_Any, str]:
    """The row of the highest value, and in words how many others have the very same."""
    best = max(rows, key=value)
    level = sum(value(row) == value(best) for row in rows) - 1
    return best, f" (level with {level} more)" if level else ""


def _quality(study: RouterStudy, best: RoutedRow, level: str) -> str:
    reference = {row.label: row for row in study.rows}
    gap = reference[ORACLE].quality.value - reference[BEST_SINGLE].quality.value
    closed = percent(best.against[BEST_SINGLE].value / gap) if gap > 0 else "nothing, as there is none"
    return (
        f"Quality: {best.label}{level}, {_plain(best.quality, score)}; "
        f"{_moved(best.against[BEST_SINGLE], score)} to the best single model, "
        f"{_moved(best.against[PER_SOURCE], score)} to the best of each source, "
        f"{_moved(best.against[RANDOM], score)} to random. Of the way from best single to oracle "
        f"({score(reference[ORACLE].quality.value)}) that is {closed}."
    )


def _thrift(routers: Sequence[RoutedRow]) -> Iterator[str]:
    fair = [
        row for row in routers if not row.against[BEST_SINGLE].is_below_zero and row.cost_usd.status == "ok"
    ]
    if fair:
        row = min(fair, key=lambda each: each.cost_usd.value)
        yield (
            f"Cheapest of those not surely worse than the best single model: {row.label}, "
            f"{usd_per_thousand(row.cost_usd.value)} USD per 1,000 requests, "
            f"{_moved(row.cost_against, usd_per_thousand)} to that model, at quality "
            f"{_moved(row.against[BEST_SINGLE], score)}."
        )


def _hits(study: RouterStudy, best: RoutedRow, level: str) -> str:
    random = next(row for row in study.rows if row.label == RANDOM)
    return (
        f"Picks a best model most often where the labels differ: {best.label}{level}, "
        f"{_plain(best.picks_informative, percent_1)}; random {percent_1(random.picks_informative.value)}."
    )


def _steadiest(study: RouterStudy) -> Iterator[str]:
    fixed = {row.label for row in _fixed(study)}
    moving = [row for row in _rivals(study.flips) if row.router not in fixed]
    rates = {name: _mean_flips(list(rows)) for name, rows in groupby(moving, key=lambda row: row.router)}
    if len(rates) > 1:
        steady, shaky = (choose(rates, key=lambda name: rates[name]) for choose in (min, max))
        yield (
            f"Steadiest under other wording: {steady} changes {percent_1(rates[steady])} of its choices on "
            f"average over the noises, {shaky} {percent_1(rates[shaky])}."
        )


def _choices_fail(study: RouterStudy) -> Iterator[str]:
    routers = study.routers
    for claim, reference in (
        ("Better than the best single model", BEST_SINGLE),
        ("Better than the best model of each source", PER_SOURCE),
    ):
        yield _tally(
            claim, [row.label for row in routers if row.against[reference].is_above_zero], len(routers)
        )
    if worse := [row for row in routers if row.against[RANDOM].is_below_zero]:
        yield f"Surely worse than a random choice: {_names(worse)}."
    if fixed := _fixed(study):
        models = study.material.population.models
        named = [f"{row.label} ({models[int(np.argmax(row.shares))]})" for row in fixed]
        yield f"No routing at all, one model gets every prompt: {', '.join(named)}."
    if tied := [row for row in _rivals(study.concordance) if row.tied.low > _MANY_TIES]:
        told = ", ".join(f"{row.router} {_plain(row.tied, percent_1)}" for row in tied)
        yield f"Several models share the highest score, so that their order in the pool decides: {told}."
    if curves := _swept(study):
        above = [curve.label for curve in curves if curve.against_singles.is_above_zero]
        yield _tally("Above single models mixed at random (AIQ)", above, len(curves))


def _robustness_fails(study: RouterStudy) -> Iterator[str]:
    trained = [row for row in _rivals(study.held_out) if row.router != BEST_SINGLE]
    if trained:
        lost = [row for row in trained if row.difference.is_below_zero]
        ahead = [row for row in trained if row.against_single.is_above_zero]
        yield (
            f"On a source they have not seen, {len(lost)} of {len(trained)} pairs of router and source are "
            f"surely worse than after seeing it; {len(ahead)} are surely better there than the model that is "
            "best on the other sources."
        )
    if flips := _rivals(study.flips):
        hurt = [row for row in flips if row.quality_change.is_below_zero]
        yield (
            f"Other wording lowers quality surely in {len(hurt)} of {len(flips)} pairs of router and noise"
            + (f", most {_worst(hurt)}." if hurt else ".")
        )
    wrong = [row for row in _rivals(study.label_noise) if row.rate > 0]
    if wrong:
        worse = [row for row in wrong if row.difference.is_below_zero]
        yield (
            f"Wrong training labels lower quality surely in {len(worse)} of {len(wrong)} pairs of router and "
            "share."
        )


def _worst(rows: Sequence[FlipRow]) -> str:
    row = min(rows, key=lambda each: each.quality_change.value)
    return f"{row.router} under {row.noise}: {_moved(row.quality_change, score)}"


def _tally(claim: str, sure: Sequence[str], total: int) -> str:
    if not sure:
        return f"{claim}: none of {total} surely."
    if len(sure) == total:
        return f"{claim}: holds surely, for all {total}."
    return f"{claim}: surely only {len(sure)} of {total} ({', '.join(sure)})."


def _rivals(rows: Sequence[_Row]) -> list[_Row]:
    """Rows of routers that a live request could be routed by."""
    return [row for row in rows if not is_reference(row.router)]


def _fixed(study: RouterStudy) -> list[RoutedRow]:
    return [row for row in study.routers if row.is_fixed]


def _names(rows: Sequence[RoutedRow]) -> str:
    return ", ".join(row.label for row in rows)


def _swept(study: RouterStudy) -> list[Curve]:
    """Curves of routers, without references and that of the single models, where areas are known."""
    curves = [curve for curve in study.curves[:-1] if not is_reference(curve.label)]
    return [curve for curve in curves if np.isfinite(curve.area.value)]


def _mean_flips(rows: Sequence[FlipRow]) -> float:
    return float(np.mean([row.flipped.value for row in rows]))


def _plain(interval: Interval, write: Callable[[float], str]) -> str:
    return f"{write(interval.value)} {span(interval, write)}"


def _moved(interval: Interval, write: Callable[[float], str]) -> str:
    return f"{signed(write(interval.value))} {span(interval, lambda bound: signed(write(bound)))}"
