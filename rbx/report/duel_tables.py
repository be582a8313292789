"""RouteBalance against each other policy: the baseline at each rate, the tally, what stands, every duel."""

from __future__ import annotations

from rbx.report.analysis import Analysis, RateResult
from rbx.report.answer import at_rates, compared, lost_range
from rbx.report.dominance import QUALITY_MARGIN, VERDICTS, Duel, Trade, Verdict
from rbx.report.doubt import doubt_words
from rbx.report.number import UNKNOWN, percent, score
from rbx.report.overload_mark import marked, with_footnote
from rbx.report.plane import PLANES, Plane
from rbx.report.sweep_tables import named, rate_value, saved
from rbx.report.table import Column, Table, Tone, Value, change

_TONES: dict[Verdict, Tone] = {"sure": "good", "estimate": "", "no": "bad", "unknown": "mute"}
_SHORT: dict[Verdict, str] = {
    "sure": "ahead, sure",
    "estimate": "ahead",
    "no": "not ahead",
    "unknown": UNKNOWN,
}
SURE_NOTE = (
    f"Sure: the interval of the gain excludes zero, and quality is not worse by more than {QUALITY_MARGIN:g}."
)


def baseline_table(analysis: Analysis) -> Table:
    """At each rate and in each plane, how RouteBalance does against the chosen baseline."""
    columns = (Column("λ, req/s"), *(Column(plane.axis, numeric=False) for plane in PLANES))
    rows = []
    for rate in analysis.rates:
        mine = {d.plane: d for d in rate.duels if d.baseline.label == analysis.baseline_label}
        if mine:
            rows.append((rate_value(rate), *(_outcome(mine[plane]) for plane in PLANES)))
    note = (
        f"RouteBalance − {analysis.baseline_label}, paired by prompt: of the RouteBalance cells of at least "
        f"its quality, the one that is best on the axis. {SURE_NOTE}"
    )
    return with_footnote(Table("Against the baseline, rate by rate", note, columns, tuple(rows)))


def _outcome(duel: Duel) -> Value:
    trade = duel.at_quality
    if trade is None:
        return Value(_SHORT[duel.verdict], "no cell reaches its quality", tone=_TONES[duel.verdict])
    shown = saved(duel.plane, trade.saving)
    quality = change(trade.quality_gain, score, lower_is_better=False)
    sub = f"{shown.text} {shown.sub} at quality {quality.text} {quality.sub}, by {trade.point.label}"
    if duel.verdict == "estimate" and (why := doubt_words([trade])):
        sub += f". Not sure: {why}"
    value = Value(_SHORT[duel.verdict], sub, sort=trade.saving.value, tone=_TONES[duel.verdict])
    return marked(value, duel.baseline, trade.point)


def tally_table(analysis: Analysis) -> Table:
    """In each plane and at each rate, how many policies some RouteBalance cell dominates; the widest lead."""
    columns = (
        Column("plane", numeric=False),
        *(Column(f"λ = {rate.rate_per_s:g}", numeric=False) for rate in analysis.rates),
        Column("widest lead where both keep up", "as a share of the other's own figure", numeric=False),
    )
    rows = [
        (
            Value(plane.title),
            *(_tally([duel for duel in rate.duels if duel.plane is plane]) for rate in analysis.rates),
            _widest(analysis, plane),
        )
        for plane in PLANES
    ]
    note = (
        "Passthrough cells, and below them all policies that are not RouteBalance, that some RouteBalance "
        f"cell equals or beats in both coordinates. {SURE_NOTE}"
    )
    return Table("How many RouteBalance is ahead of", note, columns, tuple(rows))


def _tally(found: list[Duel]) -> Value:
    plain = [duel for duel in found if duel.baseline.family == "passthrough"] or found
    if not plain:
        return Value(UNKNOWN, tone="mute")
    won, sure = _won(plain)
    tone: Tone = "good" if sure == len(plain) else "bad" if won == 0 else ""
    all_won, all_sure = _won(found)
    return Value(
        f"{won} of {len(plain)}, {sure} sure",
        sub=f"all: {all_won} of {len(found)}, {all_sure} sure",
        sort=float(won),
        tone=tone,
    )


def _won(found: list[Duel]) -> tuple[int, int]:
    """How many are dominated, and how many of them surely."""
    return sum(duel.won for duel in found), sum(duel.verdict == "sure" for duel in found)


def _widest(analysis: Analysis, plane: Plane) -> Value:
    """The largest saving, as a share of the rival's figure, between two that are not known to fall behind."""
    rivals, _ = compared([(rate, duel) for rate in analysis.rates for duel in rate.duels])
    leads = [
        (_relative(plane, duel, duel.at_quality_kept_up), rate, duel, duel.at_quality_kept_up)
        for rate, duel in rivals
        if duel.plane is plane and duel.won and duel.at_quality_kept_up is not None
    ]
    leads = [lead for lead in leads if lead[3].saving.value > 0]
    if not leads:
        return Value(UNKNOWN, tone="mute")
    share, rate, duel, best = max(leads, key=lambda lead: lead[0])
    shown = saved(plane, best.saving)
    return Value(
        f"{shown.text} ({percent(share)})",
        sub=f"{shown.sub} at λ = {rate.rate_per_s:g} against {duel.baseline.label}, by {best.point.label}",
        sort=share,
    )


def _relative(plane: Plane, duel: Duel, trade: Trade) -> float:
    """What the trade saves as a share of the baseline's own figure; 0 where that is zero."""
    own = abs(plane.value(duel.baseline))
    return trade.saving.value / own if own > 0 else 0.0


def standing_table(analysis: Analysis) -> Table:
    """The policies that no RouteBalance cell dominates, with the rates where that is so."""
    planes = (Column(plane.title.lower(), numeric=False) for plane in PLANES)
    columns = (Column("policy", numeric=False), *planes)
    stand: dict[str, dict[str, list[tuple[RateResult, Duel]]]] = {}
    for rate in analysis.rates:
        for duel in rate.duels:
            if duel.verdict == "no":
                by_plane = stand.setdefault(duel.baseline.label, {})
                by_plane.setdefault(duel.plane.name, []).append((rate, duel))
    rows = []
    for by_plane in stand.values():
        first = next(iter(by_plane.values()))[0][1].baseline
        cells = [_stands(plane, by_plane.get(plane.name, []), len(analysis.rates)) for plane in PLANES]
        rows.append((Value(first.label, mark=first.family), *cells))
    note = (
        "Rates at which no RouteBalance cell is at least as good in both coordinates. Below: what the best "
        "RouteBalance cell of at least the policy's quality loses on the axis."
    )
    return Table("Policies that RouteBalance is not ahead of", note, columns, tuple(rows))


def _stands(plane: Plane, mine: list[tuple[RateResult, Duel]], n_rates: int) -> Value:
    if not mine:
        return Value("ahead", tone="mute")
    where = at_rates([rate for rate, _ in mine], n_rates)
    lost = lost_range(plane, [duel for _, duel in mine])
    return Value(where, sub=lost or "none reaches its quality")


def duels_table(rate: RateResult) -> Table:
    """RouteBalance against every other policy of a rate, in every plane."""
    columns = (
        Column("plane", numeric=False),
        Column("against", numeric=False),
        Column("ahead?", "; ".join(f"{_SHORT[v]}: {words}" for v, words in VERDICTS.items()), numeric=False),
        Column("at ≥ its quality, best cell", numeric=False),
        Column("difference on the axis"),
        Column("Δ quality"),
        Column("as good on the axis, best cell", numeric=False),
        Column("Δ quality "),
    )
    rows = [_duel(duel) for duel in rate.duels]
    note = (
        "For each policy that is not RouteBalance: is some RouteBalance cell at least as good in both "
        "coordinates? The cell is picked on the same data, so its lead is slightly optimistic."
    )
    return with_footnote(Table("RouteBalance and what it is compared with", note, columns, tuple(rows)))


def _duel(duel: Duel) -> tuple[Value, ...]:
    verdict = Value(_SHORT[duel.verdict], hint=VERDICTS[duel.verdict], tone=_TONES[duel.verdict])
    return (
        Value(duel.plane.name),
        named(duel.baseline),
        verdict,
        *_at_quality(duel.plane, duel.at_quality),
        *_at_axis(duel.at_axis),
    )


def _at_quality(plane: Plane, trade: Trade | None) -> tuple[Value, ...]:
    if trade is None:
        return Value("none of equal quality", tone="mute"), Value(UNKNOWN), Value(UNKNOWN)
    return (
        named(trade.point),
        saved(plane, trade.saving),
        change(trade.quality_gain, score, lower_is_better=False),
    )


def _at_axis(trade: Trade | None) -> tuple[Value, ...]:
    if trade is None:
        return Value("none as good on the axis", tone="mute"), Value(UNKNOWN)
    return (
        named(trade.point),
        change(trade.quality_gain, score, lower_is_better=False),
    )
