"""The on-time tables over all rates: the two curves, BEAR against every policy, averages, where it loses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from rbx.report.interval import Interval
from rbx.report.number import UNKNOWN, percent, score, signed, significant
from rbx.report.ontime.gains import Average, Comparison, Rivalry
from rbx.report.ontime.published import (
    AREA_OVER_BEST_BASELINE,
    CELLS,
    OVER_BEST_BASELINE,
    OVER_LATENCY_AWARE,
)
from rbx.report.ontime.role import LATENCY_AWARE_ROUTERS, Role
from rbx.report.ontime.study import OnTimeResult, OnTimeStudy
from rbx.report.table import Column, Table, Value, change, estimate

PUBLISHED_NOTE = "Published: real vLLM on H100s, other prompts and another judge."


def gain(interval: Interval) -> Value:
    """A relative gain of BEAR in per cent, coloured where its interval excludes zero."""
    shown = change(interval, percent, lower_is_better=False)
    if interval.status != "ok" or math.isfinite(interval.high):
        return shown
    return replace(shown, sub=f"above {signed(percent(interval.low))}")


def curve_tables(study: OnTimeStudy) -> Iterator[Table]:
    """OnTimeUtility and attainment: one row a policy, one column a rate."""
    yield _curve(
        study,
        "OnTimeUtility",
        "Mean over all scheduled requests of quality − w·cost if the first token came in time, else 0; "
        f"w = {study.rule.cost_weight_per_usd:g} per USD. Best first.",
        "on_time_utility",
        score,
    )
    yield _curve(
        study,
        "Attainment",
        "Share of all scheduled requests whose first token came within their target; failed and shed ones "
        "are late.",
        "attainment",
        lambda share: percent(share, 1),
    )


def _curve(study: OnTimeStudy, caption: str, note: str, metric: str, write: Callable[[float], str]) -> Table:
    columns = (
        Column("policy", numeric=False),
        Column("part", "its part in the comparison with BEAR", numeric=False, is_optional=True),
        *(Column(f"λ = {rate:g}") for rate in study.rates_per_s),
    )
    rows = []
    for results in study.by_label().values():
        found = {result.point.rate_per_s: result for result in results}
        rows.append(
            (
                _named(results[0]),
                Value(results[0].role.words, tone="mute"),
                *(_measured(found.get(rate), metric, write) for rate in study.rates_per_s),
            )
        )
    return Table(caption, note, columns, tuple(rows))


def _named(result: OnTimeResult) -> Value:
    return Value(result.point.label, mark=result.point.family)


def _measured(result: OnTimeResult | None, metric: str, write: Callable[[float], str]) -> Value:
    if result is None:
        return Value(UNKNOWN, tone="mute")
    other = result.over_prompts[metric]
    shown = estimate(result.over_time[metric], write)
    if other.status != "ok" or shown.hint:
        return shown
    return replace(shown, hint=f"over prompts: [{write(other.low)}, {write(other.high)}]")


def rivals_table(comparison: Comparison) -> Table:
    """BEAR ÷ each other policy − 1 in OnTimeUtility, rate by rate and by area."""
    rates = sorted({each.rate_per_s for each in comparison.rivalries})
    columns = (
        Column("against", numeric=False),
        Column("part", numeric=False, is_optional=True),
        *(Column(f"λ = {rate:g}", "BEAR ÷ policy − 1") for rate in rates),
        Column("area", "BEAR's area under OnTimeUtility over the common rates ÷ the policy's − 1"),
    )
    areas = {area.label: area for area in comparison.areas}
    rows = []
    for label, mine in _by_label(comparison.rivalries).items():
        area = areas.get(label)
        rows.append(
            (
                Value(label, mark=mine[0].family),
                Value(mine[0].role.words, tone="mute"),
                *(_ratio(next((m for m in mine if m.rate_per_s == rate), None)) for rate in rates),
                Value(UNKNOWN, tone="mute") if area is None else gain(area.gain),
            )
        )
    note = (
        "BEAR's OnTimeUtility ÷ the policy's − 1, paired over blocks of time. Green: the interval lies above "
        "zero; red: below."
    )
    return Table("BEAR against each policy", note, columns, tuple(rows))


def _ratio(rivalry: Rivalry | None) -> Value:
    return Value(UNKNOWN, tone="mute") if rivalry is None else gain(rivalry.ratio)


def _by_label(rivalries: tuple[Rivalry, ...]) -> dict[str, list[Rivalry]]:
    groups: dict[str, list[Rivalry]] = {}
    for each in rivalries:
        groups.setdefault(each.label, []).append(each)
    return groups


def averages_table(study: OnTimeStudy, comparison: Comparison, *, published: bool) -> Table:
    """The two averages of the paper's summary and the area, with how each is taken and from what."""
    columns = (
        Column("gain of BEAR in OnTimeUtility", numeric=False),
        Column("here"),
        Column("median", "of the ratios averaged"),
        *((Column("published", PUBLISHED_NOTE),) if published else ()),
        Column("how it is taken", numeric=False),
        Column("from", numeric=False),
    )

    def row(name: str, here: Value, median: float, known: float, how: str, origin: str) -> tuple[Value, ...]:
        figure = (Value(f"+{percent(known, 1)}", tone="mute"),) if published else ()
        middle = Value(UNKNOWN if median != median else signed(percent(median)), sort=median)
        return (Value(name), here, middle, *figure, Value(how), Value(origin))

    aware, best, area = comparison.over_latency_aware, comparison.over_best, comparison.area_over_best
    rows = [
        row(
            "over existing latency-aware routers",
            gain(aware.gain),
            aware.median,
            OVER_LATENCY_AWARE,
            "mean over (latency-aware router, rate) of BEAR ÷ router − 1; a router in several settings "
            "stands by the one of the highest mean over the rates",
            _aware_words(study, comparison, aware),
        ),
        row(
            "over the best baseline of each rate",
            gain(best.gain),
            best.median,
            OVER_BEST_BASELINE,
            "mean over rates of BEAR ÷ the baseline of the highest OnTimeUtility there − 1",
            _best_words(best),
        ),
    ]
    if area is not None:
        rows.append(
            row(
                "in the area under the curve",
                gain(area.gain),
                float("nan"),
                AREA_OVER_BEST_BASELINE,
                "trapezoids over the common rates, BEAR ÷ the baseline of the largest area − 1",
                f"{area.label}, λ = {area.rates_per_s[0]:g} to {area.rates_per_s[-1]:g}: "
                f"{significant(area.bear)} against {significant(area.other)}",
            )
        )
    note = (
        f"Baselines: {', '.join(_baselines(comparison)) or 'none'}. Latency-aware routers, where they are "
        f"among them: {', '.join(LATENCY_AWARE_ROUTERS)}. The best are picked on the data they are judged by."
    )
    return Table(
        "What BEAR gains on average", f"{note} {PUBLISHED_NOTE}" if published else note, columns, tuple(rows)
    )


def _baselines(comparison: Comparison) -> list[str]:
    return list(dict.fromkeys(r.label for r in comparison.rivalries if r.role.kind == "baseline"))


def _aware_words(study: OnTimeStudy, comparison: Comparison, average: Average) -> str:
    roles: dict[str, Role] = {each.label: each.role for each in comparison.rivalries}
    routers = sorted({role.router for role in roles.values() if role.latency_aware})
    if not routers:
        return "the sweep has no such router"
    shown = [f"{router} ({comparison.settings[router]})" for router in routers]
    return f"{', '.join(shown)}; {len(average.terms)} ratios{_left_out(average)}"


def _best_words(average: Average) -> str:
    where: dict[str, list[str]] = {}
    for label, rate in average.terms:
        where.setdefault(label, []).append(f"{rate:g}")
    shown = [f"{label} at λ = {', '.join(rates)}" for label, rates in where.items()]
    return "; ".join(shown) + _left_out(average)


def _left_out(average: Average) -> str:
    if not average.left_out:
        return ""
    named = ", ".join(f"{label} at {rate:g}" for label, rate in average.left_out[:3])
    return f"; left out, as not above zero or not paired: {len(average.left_out)} ({named})"


def lost_table(comparison: Comparison) -> Table:
    """Every (policy, rate) whose OnTimeUtility lies above BEAR's: surely, and by the estimate alone."""
    columns = (
        Column("policy", numeric=False),
        Column("part", numeric=False, is_optional=True),
        Column("λ, req/s"),
        Column("Δ OnTimeUtility", "BEAR − policy"),
        Column("Δ attainment", "BEAR − policy"),
    )
    rows = tuple(
        (
            Value(each.label, mark=each.family),
            Value(each.role.words, tone="mute"),
            Value(f"{each.rate_per_s:g}", sort=each.rate_per_s),
            change(each.utility, score, lower_is_better=False),
            change(each.attainment, lambda share: percent(share, 1), lower_is_better=False),
        )
        for each in (*comparison.lost, *comparison.behind)
    )
    n = len(comparison.rivalries)
    note = (
        f"In {len(comparison.lost)} of {n} pairs (policy, rate) the interval of BEAR − policy in "
        f"OnTimeUtility lies below zero, in {len(comparison.behind)} more the estimate does. Near and above "
        "capacity a run is one long transient, and intervals over blocks of time are wide."
    )
    return Table("Where BEAR loses", note, columns, rows)


def published_cells_table() -> Table:
    """Single cells as published, to be read beside the curves."""
    columns = (
        Column("router", numeric=False),
        Column("λ, req/s"),
        Column("OnTimeUtility"),
        Column("attainment"),
    )
    rows = tuple(
        (
            Value(cell.router),
            Value(f"{cell.rate_per_s:g}", sort=cell.rate_per_s),
            Value(score(cell.on_time_utility), sort=cell.on_time_utility),
            Value(percent(cell.attainment, 1), sort=cell.attainment),
        )
        for cell in CELLS
    )
    note = (
        f"{PUBLISHED_NOTE} Not from this sweep: rates are not at the same load, and levels do not compare. "
        "SCORE: a tuning probe of 2,000 requests."
    )
    return Table("Published single cells (Qwen3 on H100s)", note, columns, rows)
