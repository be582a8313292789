"""The on-time answer in a few sentences: BEAR at one rate, on average, and where it loses."""

from __future__ import annotations

import math

from rbx.report.answer import AnswerList, few
from rbx.report.interval import Interval
from rbx.report.number import UNKNOWN, percent, score, signed
from rbx.report.ontime.gains import Average, Comparison, Rivalry
from rbx.report.ontime.role import BEAR_LABEL
from rbx.report.ontime.study import OnTimeResult, OnTimeStudy


def on_time_answer(study: OnTimeStudy | None) -> tuple[AnswerList, ...]:
    """One list; none without TTFT targets."""
    if study is None:
        return ()
    comparison = study.comparison
    lines = _leaders(study) if comparison is None else _against_all(study, comparison)
    title = "On time" if comparison is None else "On time: BEAR against the others"
    note = (
        "In time: first token within the request's target, counted from its scheduled arrival. "
        "OnTimeUtility: mean over all scheduled requests of quality − w·cost if in time, else 0, with "
        f"w = {study.rule.cost_weight_per_usd:g} per USD. "
        + ("Leads: by the estimate." if comparison is None else "Intervals over blocks of time.")
    )
    return (AnswerList(title, lines, note),)


def gain_words(interval: Interval) -> str:
    """``+32 % [+26 %, +39 %]``, or the reason why there is none."""
    if interval.status == "not_estimable":
        known = "" if interval.value != interval.value else f"{signed(percent(interval.value))}, "
        return f"{known}no interval: {interval.reason}"
    value, low, high = (signed(percent(each)) for each in (interval.value, interval.low, interval.high))
    return f"{value} [{low}, {high}]" if math.isfinite(interval.high) else f"{value} [above {low}]"


def _leaders(study: OnTimeStudy) -> tuple[str, ...]:
    lines = []
    for rate in study.rates_per_s:
        best = study.rivals_at(rate)[0]
        lines.append(f"At λ = {rate:g} req/s {best.point.label} leads: {_stands(best)}.")
    if any(result.role.kind == "bear" for result in study.results):
        lines.append("At no rate does the sweep hold BEAR (label bear) and a policy to compare it with.")
    return tuple(lines)


def _stands(result: OnTimeResult) -> str:
    m = result.metrics
    return f"{percent(m.attainment, 1)} in time, OnTimeUtility {score(m.on_time_utility)}"


def _against_all(study: OnTimeStudy, comparison: Comparison) -> tuple[str, ...]:
    best = comparison.best
    lines = []
    if best:
        lines.append(_at_one_rate(study, comparison, best[len(best) // 2]))
        lines.append(_on_average(comparison))
    lines.append(_losses(comparison))
    return (*lines, *_predictions(study))


def _at_one_rate(study: OnTimeStudy, comparison: Comparison, rivalry: Rivalry) -> str:
    at = {result.point.label: result for result in study.at(rivalry.rate_per_s)}
    mine = next(result for result in at.values() if result.role.kind == "bear")
    there = [each for each in comparison.rivalries if each.rate_per_s == rivalry.rate_per_s]
    n = sum(each.role.kind == "baseline" for each in there)
    return (
        f"At λ = {rivalry.rate_per_s:g} req/s BEAR keeps {_stands(mine)}; the best of {n} baselines there, "
        f"{rivalry.label}, {_stands(at[rivalry.label])}. BEAR's gain in OnTimeUtility: "
        f"{gain_words(rivalry.ratio)}."
    )


def _on_average(comparison: Comparison) -> str:
    area = comparison.area_over_best
    parts = [
        f"over the best baseline of each rate {_average(comparison.over_best, 'rate')}",
        f"over latency-aware routers {_average(comparison.over_latency_aware, 'ratio')}",
    ]
    if area is not None:
        parts.append(f"in the area under the curve, over {area.label}, {gain_words(area.gain)}")
    return f"Mean gain of BEAR in OnTimeUtility: {'; '.join(parts)}."


def _average(average: Average, unit: str) -> str:
    n = len(average.terms)
    if not n:
        return f"{UNKNOWN} (none to average)"
    return f"{gain_words(average.gain)} ({n} {unit}{'' if n == 1 else 's'})"


def _losses(comparison: Comparison) -> str:
    n = len(comparison.rivalries)
    return (
        f"BEAR loses surely {_pairs(comparison.lost, f' of {n} pairs (policy, rate)')}. "
        f"By the estimate alone it is behind {_pairs(comparison.behind, '')}."
    )


def _pairs(found: tuple[Rivalry, ...], of: str) -> str:
    """How many, how many of them baselines, and the baselines first among those named."""
    if not found:
        return f"in none{of}"
    ranked = sorted(found, key=lambda each: each.role.kind != "baseline")
    named = few([f"{each.label} (λ = {each.rate_per_s:g})" for each in ranked])
    baselines = sum(each.role.kind == "baseline" for each in found) or "none"
    return f"in {len(found)}{of}, {baselines} of them baselines: {named}"


def _predictions(study: OnTimeStudy) -> tuple[str, ...]:
    """How BEAR's TTFT predictions fared, as ranges over the rates."""
    found = [each for each in study.estimators if each.label == BEAR_LABEL]
    if not found:
        return ()
    overall, median = _range([e.overall.mape for e in found]), _range([e.overall.median_ape for e in found])
    alone, joined = _range([e.undisturbed.mape for e in found]), _range([e.disturbed.mape for e in found])
    share = _range([e.disturbed.n / e.overall.n for e in found])
    return (
        f"BEAR's TTFT predictions, over the rates: MAPE {overall}, median error {median}; MAPE {alone} where "
        f"nothing was sent to the instance before the first token, {joined} for the other {share}.",
    )


def _range(shares: list[float]) -> str:
    known = [share for share in shares if share == share]
    if not known:
        return UNKNOWN
    low, high = (f"{100 * share:.1f} %" for share in (min(known), max(known)))
    return low if low == high else f"{low} to {high}"
