"""The tables of the claims page: what is met, and every claim under its table or figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rbx.config.claims import BoundClaim, DifferenceClaim, OrderClaim, SignClaim
from rbx.report.bootstrap import LEVEL
from rbx.report.claims.finding import VERDICTS, OrderFinding, Verdict
from rbx.report.claims.off_by import off_by
from rbx.report.claims.scale import Scale, scale_of
from rbx.report.claims.study import ClaimsStudy, Judged
from rbx.report.claims.tally import NEAR, Part, Tally, tallies
from rbx.report.number import UNKNOWN, percent, significant, span
from rbx.report.overload_mark import marked, with_footnote
from rbx.report.table import Column, Table, Tone, Value

_TONES: dict[Verdict, Tone] = {
    "holds": "good",
    "does not hold": "bad",
    "not clear": "",
    "not run": "mute",
}


def all_tables(study: ClaimsStudy) -> list[Table]:
    """The tally, then one table for each published table or figure, in the order of the file."""
    return [tally_table(tallies(study.judged)), *artefact_tables(study)]


def tally_table(counted: Sequence[Tally]) -> Table:
    """What is met, predicted and calibrated claims side by side and never added up."""
    rows: list[tuple[Value, ...]] = [(Value("claims"), *(Value(f"{t.claims:,}") for t in counted))]
    rows += [(Value(each), *(Value(f"{t.verdicts[each]:,}") for t in counted)) for each in VERDICTS]
    for title, parts in _parts(counted):
        if any(part.n for part in parts):
            rows.append((Value(title), *map(_part, parts)))
    note = (
        "Calibrated: something of ours was fitted to that very number. The lines below the verdicts count "
        "claims that were run, each in every line that fits its kind."
    )
    columns = (Column("", numeric=False), *(Column(t.role) for t in counted))
    return Table("What is met", note, columns, tuple(rows))


def _parts(counted: Sequence[Tally]) -> Iterator[tuple[str, list[Part]]]:
    for index, near in enumerate(NEAR):
        yield f"values and ratios within {percent(near)}", [t.within[index] for t in counted]
    yield "published value in our interval", [t.covered for t in counted]
    yield "published interval overlaps ours", [t.overlapping for t in counted]
    yield "directions as published, by the estimates", [t.same_way for t in counted]
    yield "directions as published, clearly", [t.clearly for t in counted]
    yield "directions clearly the other way", [t.against for t in counted]
    yield "significant, or not, as published", [t.significance for t in counted]
    yield "orders as published, by the estimates", [t.orders for t in counted]
    yield "orders that hold", [t.orders_held for t in counted]
    yield "neighbours in the published order", [t.neighbours for t in counted]
    yield "neighbours in it clearly", [t.neighbours_clear for t in counted]
    yield "bounds that hold", [t.bounds for t in counted]


def _part(part: Part) -> Value:
    if not part.n:
        return Value(UNKNOWN, tone="mute")
    return Value(f"{part.k} of {part.n}", sub=percent(part.k / part.n), sort=part.k / part.n)


def artefact_tables(study: ClaimsStudy) -> Iterator[Table]:
    """One table for each published table or figure."""
    by_artefact: dict[str, list[Judged]] = {}
    for each in study.judged:
        by_artefact.setdefault(each.artefact, []).append(each)
    columns = (
        Column("claim", numeric=False),
        Column("says", numeric=False),
        Column("published"),
        Column("ours", f"with a {percent(LEVEL)} bootstrap interval over prompts"),
        Column("off by", "ours ÷ published − 1"),
        Column("verdict", numeric=False),
        Column("remark", "where it does not hold: why we differ", numeric=False),
        Column("n", "scheduled requests of the first point, all seeds"),
    )
    for artefact, judged in by_artefact.items():
        own = tuple(dict.fromkeys(kind for each in judged for kind in each.kinds))
        note = ""
        if own and own != study.kinds:
            note = f"Of what the page is marked with, this table rests on {', '.join(own)} alone."
        yield with_footnote(Table(artefact, note, columns, tuple(map(_row, judged))))


def brief_table(study: ClaimsStudy) -> Table:
    """Every claim in a line, for a terminal."""
    columns = (
        Column("claim", numeric=False),
        Column("published"),
        Column("ours"),
        Column("verdict", numeric=False),
    )
    rows = tuple(
        (
            Value(each.claim.id, sub="calibrated" if each.claim.is_calibrated else ""),
            replace(published_value(each), sub=""),
            our_value(each),
            replace(_verdict(each), sub=""),
        )
        for each in study.judged
    )
    note = f"{study.resampling.n_resamples:,} resamples; the page tells why, and where it stands."
    return with_footnote(Table("Every claim", note, columns, rows))


def _verdict(judged: Judged) -> Value:
    verdict = judged.finding.verdict
    return Value(verdict, sub=_why(judged), tone=_TONES[verdict])


def _row(judged: Judged) -> tuple[Value, ...]:
    claim = judged.claim
    place = claim.where.partition(",")[2].strip()
    role = "calibrated" if claim.is_calibrated else "predicted"
    error = judged.finding.relative_error
    order = ""
    if isinstance(claim, OrderClaim):
        order = "published order, best first: " + "; ".join(_apart(looked_at(judged)))
    return (
        Value(claim.id, sub=role),
        Value(claim.says, sub=" · ".join(part for part in (place, claim.metric or "", order) if part)),
        published_value(judged),
        our_value(judged),
        Value(UNKNOWN, tone="mute") if error is None else Value(off_by(error), sort=error),
        _verdict(judged),
        Value(remark_of(judged)),
        _n(judged),
    )


def remark_of(judged: Judged) -> str:
    """What was fitted, for a calibrated claim; the remark on why we differ, where a claim does not hold."""
    claim = judged.claim
    parts = [f"Calibrated: {claim.why}"] if claim.why else []
    if judged.finding.verdict in ("does not hold", "not clear") and claim.remark:
        parts.append(claim.remark)
    return " ".join(parts)


def looked_at(judged: Judged) -> list[str]:
    """Every point in words, in the order of the claim."""
    return [getattr(point, "words", "") or "not there" for point in judged.points]


def _why(judged: Judged) -> str:
    parts = [judged.finding.why]
    if judged.unpaired:
        parts.append(judged.unpaired)
    if judged.gaps and judged.finding.verdict != "not run":
        parts.append(f"not all of it was run: {'; '.join(judged.gaps[:2])}")
    return ". ".join(parts)


def _n(judged: Judged) -> Value:
    if not judged.measured:
        return Value(UNKNOWN, tone="mute")
    first = judged.measured[0]
    scheduled = first.point.metrics.counts.scheduled
    seeds = len(first.point.cells)
    repeated = "" if seeds == 1 else f", {seeds} seeds"
    return Value(f"{scheduled:,}", sub=f"{len(first.universe):,} prompts{repeated}", sort=float(scheduled))


def published_value(judged: Judged) -> Value:
    """The published statement as a figure or a sign."""
    claim, scale = judged.claim, scale_of(judged)
    if isinstance(claim, OrderClaim):
        return Value("order")
    if isinstance(claim, SignClaim):
        return Value(claim.published)
    if isinstance(claim, BoundClaim):
        return Value(_bound_words(claim, scale))
    between = "" if claim.published_interval is None else scale.ends(*claim.published_interval)
    if not between and isinstance(claim, DifferenceClaim) and claim.significant is not None:
        between = "significant" if claim.significant else "not significant"
    return Value(scale.written(claim.published), between, claim.published)


def our_value(judged: Judged) -> Value:
    """Our figure over its interval, flagged where a point does not keep up with its arrivals."""
    finding, scale = judged.finding, scale_of(judged)
    if finding.order is not None:
        value = _order_value(finding.order)
    elif finding.ours is not None:
        ours = finding.ours
        value = Value(scale.written(ours.value), span(ours, scale.write), ours.value, hint=ours.reason)
    else:
        return Value(UNKNOWN, tone="mute")
    if judged.metric is None or not judged.metric.depends_on_length:
        return value
    return marked(value, *(point.point for point in judged.measured))


def _order_value(order: OrderFinding) -> Value:
    tau, n = order.tau, len(order.neighbours)
    ends = span(tau, lambda bound: significant(bound, 2))
    text = f"τ = {significant(tau.value, 2)}"
    return Value(text, f"{ends}, {order.in_order} of {n} in order", tau.value, hint=tau.reason)


def _bound_words(claim: BoundClaim, scale: Scale) -> str:
    low = None if claim.at_least is None else scale.written(claim.at_least)
    high = None if claim.at_most is None else scale.written(claim.at_most)
    if low is None:
        return f"≤ {high}"
    return f"≥ {low}" if high is None else f"{low} to {high}"


def _apart(words: list[str]) -> list[str]:
    """Points by their policies alone where that tells them apart, else in full."""
    policies = [each.partition(": ")[2].rpartition(" at ")[0] or each for each in words]
    return policies if len(set(policies)) == len(policies) else words
