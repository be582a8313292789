"""The report on routers in sentences: which is best at what, and which claims do not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from rbx.report.answer import AnswerList
from rbx.report.engine import SYNTHETIC_GRID
from rbx.report.interval import Interval
from rbx.report.number import percent, score, signed, span, usd_per_thousand
from rbx.report.routers.allocation import BEST_SINGLE, ORACLE, PER_SOURCE, RANDOM
from rbx.report.routers.curves import Curve
from rbx.report.routers.flips import FlipRow
from rbx.report.routers.held_out_source import HeldOutRow
from rbx.report.routers.routed_quality import RoutedRow
from rbx.report.routers.study import PARTS, RouterStudy

_ONE_MODEL = 0.999


def stamp(study: RouterStudy) -> tuple[str, ...]:
    """What stands on every table and figure where prompts and labels are made up."""
    return (SYNTHETIC_GRID,) if study.synthetic else ()


def what_was_judged(study: RouterStudy) -> str:
    """Grid, pool, encoder, routers and prompts in two sentences."""
    material, people = study.material, study.material.population
    meta = material.bundle.meta
    routers = len([row for row in study.rows if row.kind == "router"])
    labels = " Prompts and labels are synthetic: read the shape, not the level." if study.synthetic else ""
    return (
        f"{routers} routers in all their settings choose one of {len(people.models)} models of pool "
        f"{material.pool.name} for each of {people.n:,} test prompts of grid {material.view.name} (metric "
        f"{material.view.metric}, {len(material.task.texts):,} training prompts, encoder "
        f"{meta.encoder_name}). Nothing queues: this is about the choice alone.{labels}"
    )


def warnings(study: RouterStudy) -> Iterator[str]:
    """What must be known before the figures are read."""
    people = study.material.population
    if people.n < people.n_test:
        yield (
            f"{people.n:,} of {people.n_test:,} test prompts have a label for every model; the others take "
            "no part, so the figures hold for prompts that every model was scored on."
        )
    if people.n_priced < people.n:
        yield f"Costs are known for {people.n_priced:,} of {people.n:,} prompts only."
    yield from study.refused
    if skipped := [part for part in PARTS if part in study.options.skip]:
        yield f"Left out, as asked: {', '.join(skipped)}."


def answers(study: RouterStudy) -> tuple[AnswerList, ...]:
    """Best at what; then what does not hold."""
    lists = [AnswerList("Best at what", tuple(_best(study)), _NOTE)]
    return (*lists, AnswerList("What does not hold", tuple(_fails(study))))


_NOTE = "Brackets: 95 % intervals, paired by prompt; best means the highest estimate, not a sure one."


def _best(study: RouterStudy) -> Iterator[str]:
    routers = _routers(study)
    reference = {row.label: row for row in study.rows}
    best = max(routers, key=lambda row: row.quality.value)
    gap = reference[ORACLE].quality.value - reference[BEST_SINGLE].quality.value
    closed = best.against[BEST_SINGLE].value / gap if gap > 0 else np.nan
    yield (
        f"Quality: {best.label}, {_plain(best.quality, score)}; {_moved(best.against[BEST_SINGLE], score)} "
        f"to the {BEST_SINGLE}, {_moved(best.against[PER_SOURCE], score)} to the {PER_SOURCE}, "
        f"{_moved(best.against[RANDOM], score)} to random. Of the way from best single to oracle "
        f"({score(reference[ORACLE].quality.value)}) it goes {percent(closed)}."
    )
    thrifty = [
        row for row in routers if not row.against[BEST_SINGLE].high < 0 and row.cost_usd.status == "ok"
    ]
    if thrifty:
        row = min(thrifty, key=lambda each: each.cost_usd.value)
        yield (
            f"Cheapest of those not surely worse than the best single model: {row.label}, "
            f"{usd_per_thousand(row.cost_usd.value)} USD per 1,000 requests "
            f"({_moved(row.cost_against, usd_per_thousand)} to it, quality "
            f"{_moved(row.against[BEST_SINGLE], score)})."
        )
    picks = max(routers, key=lambda row: row.picks_informative.value)
    yield (
        f"Picks a best model most often where it matters: {picks.label}, "
        f"{_plain(picks.picks_informative, _percent)}; random "
        f"{_percent(reference[RANDOM].picks_informative.value)}."
    )
    if study.concordance:
        told = max(study.concordance, key=lambda row: row.macro.value)
        yield f"Knows best which prompts a model answers (mean AUC): {told.router}, "
        f"{_plain(told.macro, score)}."
    if study.calibration:
        honest = min(study.calibration, key=lambda row: row.error.value)
        yield f"Best calibrated: {honest.router}, error {_plain(honest.error, score)}."
    if curves := _swept(study):
        area = max(curves, key=lambda curve: curve.area.value)
        yield (
            f"Over the whole range of costs (AIQ): {area.label}, {_plain(area.area, score)}; "
            f"{_moved(area.against_singles, score)} to single models mixed at random."
        )
    if study.flips:
        rates = {router: _mean_flips(rows) for router, rows in _by(study.flips, lambda row: row.router)}
        steady, shaky = (choose(rates, key=lambda router: rates[router]) for choose in (min, max))
        yield (
            f"Steadiest under other wording: {steady} changes {_percent(rates[steady])} of its choices on "
            f"average over the noises, {shaky} {_percent(rates[shaky])}."
        )


def _fails(study: RouterStudy) -> Iterator[str]:
    routers = _routers(study)
    for words, reference in (
        ("Better than the best single model", BEST_SINGLE),
        ("Better than the best model of each source", PER_SOURCE),
    ):
        ahead = [row.label for row in routers if row.against[reference].low > 0]
        yield _tally(words, ahead, len(routers))
    worse = [row.label for row in routers if row.against[RANDOM].high < 0]
    if worse:
        yield f"Surely worse than a random choice: {', '.join(worse)}."
    fixed = [row for row in routers if max(row.shares) >= _ONE_MODEL]
    if fixed:
        models = study.material.population.models
        named = [f"{row.label} ({models[int(np.argmax(row.shares))]})" for row in fixed]
        yield f"No routing at all, one model gets every prompt: {', '.join(named)}."
    if curves := _swept(study):
        above = [curve.label for curve in curves if curve.against_singles.low > 0]
        yield _tally("Above single models mixed at random (AIQ)", above, len(curves))
    yield from _unseen(study.held_out)
    yield from _noisy(study)


def _unseen(rows: Sequence[HeldOutRow]) -> Iterator[str]:
    trained = [row for row in rows if row.router != BEST_SINGLE]
    lost = [row for row in trained if row.difference.high < 0]
    if lost:
        worst = min(lost, key=lambda row: row.difference.value)
        yield (
            f"On a source they have not seen, {len(lost)} of {len(trained)} pairs of router and source lose "
            f"surely; most {worst.router} on {worst.source}: {_moved(worst.difference, score)}."
        )
    ahead = [row for row in trained if row.against_single.low > 0]
    if trained:
        yield (
            f"On unseen sources {len(ahead)} of {len(trained)} are surely better than the model that is best "
            "on the other sources."
        )


def _noisy(study: RouterStudy) -> Iterator[str]:
    hurt = [row for row in study.flips if row.quality_change.high < 0]
    if study.flips:
        yield (
            f"Other wording lowers quality surely in {len(hurt)} of {len(study.flips)} pairs of router and "
            "noise" + (f", most {_worst(hurt)}." if hurt else ".")
        )
    wrong = [row for row in study.label_noise if row.rate > 0]
    lost = [row for row in wrong if row.difference.high < 0]
    if wrong:
        yield (
            f"Wrong training labels lower quality surely in {len(lost)} of {len(wrong)} pairs of router and "
            "share."
        )


def _worst(rows: Sequence[FlipRow]) -> str:
    row = min(rows, key=lambda each: each.quality_change.value)
    return f"{row.router} under {row.noise}: {_moved(row.quality_change, score)}"


def _tally(claim: str, sure: Sequence[str], total: int) -> str:
    if not sure:
        return f"{claim}: none of {total} surely."
    return f"{claim}: surely only {len(sure)} of {total} ({', '.join(sure)})."


def _routers(study: RouterStudy) -> list[RoutedRow]:
    return [row for row in study.rows if row.kind == "router"]


def _swept(study: RouterStudy) -> list[Curve]:
    """Curves of routers, without that of the single models, where areas are known."""
    return [curve for curve in study.curves[:-1] if np.isfinite(curve.area.value)]


def _by(rows: Sequence[FlipRow], key: Callable[[FlipRow], str]) -> Iterator[tuple[str, list[FlipRow]]]:
    for name in dict.fromkeys(map(key, rows)):
        yield name, [row for row in rows if key(row) == name]


def _mean_flips(rows: Sequence[FlipRow]) -> float:
    return float(np.mean([row.flipped.value for row in rows]))


def _percent(share: float) -> str:
    return percent(share, 1)


def _plain(interval: Interval, write: Callable[[float], str]) -> str:
    return f"{write(interval.value)} {span(interval, write)}"


def _moved(interval: Interval, write: Callable[[float], str]) -> str:
    return f"{signed(write(interval.value))} {span(interval, lambda bound: signed(write(bound)))}"
