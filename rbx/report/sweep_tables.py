"""The tables over all rates: winners, RouteBalance against each baseline, and the reference lines."""

from __future__ import annotations

from rbx.report.analysis import Analysis, RateResult, Winner
from rbx.report.dominance import VERDICTS, Duel, Trade, Verdict
from rbx.report.interval import Interval
from rbx.report.number import UNKNOWN, percent, score, significant, usd_per_thousand
from rbx.report.overload_mark import marked, with_footnote
from rbx.report.plane import PLANES, Plane
from rbx.report.point import Point
from rbx.report.table import Column, Table, Tone, Value, Write, change, estimate, number

_TONES: dict[Verdict, Tone] = {"both": "good", "one": "good", "estimate": "", "no": "bad", "unknown": "mute"}
_SHORT: dict[Verdict, str] = {
    "both": "yes, both",
    "one": "yes, one",
    "estimate": "by estimate",
    "no": "no",
    "unknown": UNKNOWN,
}
WRITE: dict[str, Write] = {"latency": significant, "throughput": significant, "cost": usd_per_thousand}
UNIT = {"latency": "s", "throughput": "req/s", "cost": "$ / 1,000"}


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
        return _named(winner.result.point, sub="the baseline itself")
    if winner.plane is None or winner.saving is None:
        shown = change(winner.quality_gain, score, lower_is_better=False)
        return _named(winner.result.point, sub=f"quality {shown.text} {shown.sub}", tone=shown.tone)
    shown = saved(winner.plane, winner.saving)
    return _named(winner.result.point, sub=f"{shown.text} {shown.sub}", tone=shown.tone)


def _named(point: Point, sub: str = "", tone: Tone = "") -> Value:
    """A policy's name in its family's colour, marked where the policy does not keep up."""
    return marked(Value(point.label, sub=sub, tone=tone, mark=point.family), point)


def saved(plane: Plane, saving: Interval) -> Value:
    """A saving as the change that the axis shows: negative seconds are seconds saved."""
    turned = saving
    if plane.lower_is_better:
        turned = Interval(-saving.value, -saving.high, -saving.low, saving.status, saving.reason)
    shown = change(turned, WRITE[plane.name], lower_is_better=plane.lower_is_better)
    sub = "no interval" if plane.metric is None else shown.sub
    return Value(f"{shown.text} {UNIT[plane.name]}", sub, shown.sort, shown.hint, shown.tone)


def tally_table(analysis: Analysis) -> Table:
    """In each plane and at each rate, how many policies some RouteBalance cell dominates."""
    columns = (
        Column("plane", numeric=False),
        *(Column(f"λ = {rate.rate_per_s:g}", numeric=False) for rate in analysis.rates),
    )
    rows = [
        (
            Value(plane.title),
            *(_tally([duel for duel in rate.duels if duel.plane is plane]) for rate in analysis.rates),
        )
        for plane in PLANES
    ]
    note = (
        "Passthrough cells, and below them all policies that are not RouteBalance, that some RouteBalance "
        "cell equals or beats in both coordinates. Surely: an interval excludes zero."
    )
    return Table("What RouteBalance dominates", note, columns, tuple(rows))


def _tally(found: list[Duel]) -> Value:
    plain = [duel for duel in found if duel.baseline.family == "passthrough"] or found
    if not plain:
        return Value(UNKNOWN, tone="mute")
    won, sure = _won(plain)
    tone: Tone = "good" if sure == len(plain) else "bad" if won == 0 else ""
    all_won, all_sure = _won(found)
    return Value(
        f"{won} of {len(plain)}, {sure} surely",
        sub=f"all: {all_won} of {len(found)}, {all_sure} surely",
        sort=float(won),
        tone=tone,
    )


def _won(found: list[Duel]) -> tuple[int, int]:
    """How many are dominated, and how many of them with an interval that excludes zero."""
    won = [duel for duel in found if duel.won]
    return len(won), sum(duel.verdict != "estimate" for duel in won)


def duels_table(rate: RateResult) -> Table:
    """RouteBalance against every other policy of a rate, in every plane."""
    columns = (
        Column("plane", numeric=False),
        Column("against", numeric=False),
        Column(
            "dominated?", "; ".join(f"{_SHORT[v]}: {words}" for v, words in VERDICTS.items()), numeric=False
        ),
        Column("at ≥ its quality, best cell", numeric=False),
        Column("difference on the axis"),
        Column("Δ quality"),
        Column("as good on the axis, best cell", numeric=False),
        Column("Δ quality "),
    )
    rows = [_duel(duel) for duel in rate.duels]
    note = (
        "For each policy that isn't RouteBalance: is some RouteBalance cell at least as good in both "
        "coordinates? The cell is picked on the same data, so its lead is slightly optimistic."
    )
    return with_footnote(Table("RouteBalance and what it is compared with", note, columns, tuple(rows)))


def _duel(duel: Duel) -> tuple[Value, ...]:
    verdict = Value(_SHORT[duel.verdict], hint=VERDICTS[duel.verdict], tone=_TONES[duel.verdict])
    return (
        Value(duel.plane.name),
        _named(duel.baseline),
        verdict,
        *_at_quality(duel.plane, duel.at_quality),
        *_at_axis(duel.at_axis),
    )


def _at_quality(plane: Plane, trade: Trade | None) -> tuple[Value, ...]:
    if trade is None:
        return Value("none of equal quality", tone="mute"), Value(UNKNOWN), Value(UNKNOWN)
    return (
        _named(trade.point),
        saved(plane, trade.saving),
        change(trade.quality_gain, score, lower_is_better=False),
    )


def _at_axis(trade: Trade | None) -> tuple[Value, ...]:
    if trade is None:
        return Value("none as good on the axis", tone="mute"), Value(UNKNOWN)
    return (
        _named(trade.point),
        change(trade.quality_gain, score, lower_is_better=False),
    )


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
