"""The tables over all rates: winners, frontiers, and the reference lines."""

from __future__ import annotations

from rbx.report.analysis import Analysis, RateResult, Winner
from rbx.report.interval import Interval
from rbx.report.number import UNKNOWN, percent, score, significant, usd_per_thousand
from rbx.report.overload_mark import marked, with_footnote
from rbx.report.plane import PLANES, Plane
from rbx.report.point import Point
from rbx.report.table import Column, Table, Tone, Value, Write, change, estimate, number

WRITE: dict[str, Write] = {"latency": significant, "throughput": significant, "cost": usd_per_thousand}
UNIT = {"latency": "s", "throughput": "req/s", "cost": "$ per 1,000"}


def rate_value(rate: RateResult) -> Value:
    """The rate and, where the sweep asked by load, the load."""
    load = "" if rate.load is None else f"{percent(rate.load)} load"
    return Value(f"{rate.rate_per_s:g}", sub=load, sort=rate.rate_per_s)


def winners_table(analysis: Analysis) -> Table:
    """Per rate: best quality, and the best on each axis at no loss of quality against the baseline."""
    columns = (
        Column("λ, req/s"),
        Column("best quality", numeric=False),
        *(Column(_winner_title(plane), numeric=False) for plane in PLANES),
    )
    rows = []
    for rate in analysis.rates:
        by_plane = {winner.plane: winner for winner in rate.winners}
        cells = [_winner(by_plane.get(plane)) for plane in (None, *PLANES)]
        rows.append((rate_value(rate), *cells))
    note = (
        f"Differences against {analysis.baseline_label} at the same rate, paired by prompt. Fastest and "
        "highest throughput: of the policies that keep up with arrivals, where there are any."
    )
    if behind := [f"{rate.rate_per_s:g}" for rate in analysis.rates if _baseline_is_overloaded(rate)]:
        note += f" The baseline itself does not keep up at λ = {', '.join(behind)}."
    return with_footnote(Table("Best policy at each rate", note, columns, tuple(rows)))


def _baseline_is_overloaded(rate: RateResult) -> bool:
    return rate.baseline is not None and rate.baseline.point.is_overloaded


def _winner_title(plane: Plane) -> str:
    words = {
        "latency": "fastest (mean E2E)",
        "throughput": "highest throughput",
        "cost": "cheapest",
    }
    return f"{words[plane.name]} at ≥ baseline quality"


def _winner(winner: Winner | None) -> Value:
    if winner is None:
        return Value(UNKNOWN, tone="mute")
    if winner.quality_gain is None:
        return named(winner.result.point, sub="the baseline itself")
    if winner.plane is None or winner.saving is None:
        shown = change(winner.quality_gain, score, lower_is_better=False)
        return named(winner.result.point, sub=f"quality {shown.text} {shown.sub}", tone=shown.tone)
    shown = saved(winner.plane, winner.saving)
    return named(winner.result.point, sub=f"{shown.text} {shown.sub}", tone=shown.tone)


def named(point: Point, sub: str = "", tone: Tone = "") -> Value:
    """A policy's name in its family's colour, marked where the policy does not keep up."""
    return marked(Value(point.label, sub=sub, tone=tone, mark=point.family), point)


def saved(plane: Plane, saving: Interval) -> Value:
    """A saving as the change that the axis shows: negative seconds are seconds saved."""
    turned = saving
    if plane.lower_is_better:
        turned = Interval(-saving.value, -saving.high, -saving.low, saving.status, saving.reason)
    shown = change(turned, WRITE[plane.name], lower_is_better=plane.lower_is_better)
    return Value(f"{shown.text} {UNIT[plane.name]}", shown.sub, shown.sort, shown.hint, shown.tone)


def frontier_table(analysis: Analysis) -> Table:
    """At each rate and in each plane, the policies that no other dominates."""
    columns = (Column("λ, req/s"), *(Column(plane.title.lower(), numeric=False) for plane in PLANES))
    rows = [
        (rate_value(rate), *(Value(", ".join(found.non_dominated) or UNKNOWN) for found in rate.frontiers))
        for rate in analysis.rates
    ]
    note = "Policies that no other equals in both coordinates and beats in one, by the estimates."
    return Table("Policies that no other beats", note, columns, tuple(rows))


def references_table(analysis: Analysis) -> Table:
    """What the labels allow at each rate."""
    models = list(analysis.sweep.labels.models)
    columns = (
        Column("λ, req/s"),
        Column("oracle", "best label of each prompt"),
        Column("random", "each model equally often"),
        Column("best single", "model of the highest mean on these prompts"),
        Column("its model", numeric=False),
        *(Column(model) for model in models),
        Column("label coverage", "labelled (request, model) pairs"),
    )
    rows = []
    for rate in analysis.rates:
        found = rate.references
        rows.append(
            (
                rate_value(rate),
                estimate(found.oracle, score),
                estimate(found.random, score),
                estimate(found.best_single, score),
                Value(found.best_single_model),
                *(estimate(found.model_means[model], score) for model in models),
                number(found.coverage, percent),
            )
        )
    note = "Mean label over the requests of each rate, whatever policy served them."
    return Table("Reference lines", note, columns, tuple(rows))
