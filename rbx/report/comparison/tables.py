"""The tables of a comparison: how often B is better, every difference by rate, and what else differs."""

from __future__ import annotations

from collections.abc import Iterator

from rbx.report.bootstrap import LEVEL
from rbx.report.comparison.study import Comparison, Gap
from rbx.report.measured.metric import Metric
from rbx.report.number import UNKNOWN, percent, signed, span
from rbx.report.overload_mark import marked, with_footnote
from rbx.report.table import Column, Table, Tone, Value
from rbx.report.written.files import Named

_ACRONYMS = {"e2e": "E2E", "ttft": "TTFT", "tpot": "TPOT", "slo": "SLO"}


def named_tables(found: Comparison) -> Iterator[Named]:
    """Each table with the stem of its file."""
    yield "overview", overview_table(found)
    for number, rate_per_s in enumerate(found.rates_per_s, start=1):
        yield f"rate-{number}", rate_table(found, rate_per_s)
    if found.settings:
        yield "settings", settings_table(found)


def overview_table(found: Comparison) -> Table:
    """For each metric, at how many points B is clearly better, clearly worse, or neither."""
    columns = (
        Column("metric", numeric=False),
        Column("points"),
        Column("B clearly better"),
        Column("B clearly worse"),
        Column("neither"),
        Column("smallest B − A"),
        Column("largest B − A"),
    )
    note = (
        "Clearly: the interval of B − A, paired by prompt, excludes zero. Not corrected for the number of "
        "comparisons."
    )
    return Table("B against A", note, columns, tuple(_overview_rows(found)))


def _overview_rows(found: Comparison) -> Iterator[tuple[Value, ...]]:
    for metric in found.metrics:
        gaps = [gap.gap for gap in found.gaps if gap.metric is metric and gap.gap.value == gap.gap.value]
        if not gaps:
            continue
        clear = [gap for gap in gaps if gap.excludes_zero]
        better = sum((gap.value > 0) == metric.higher_is_better for gap in clear)
        low, high = min(gap.value for gap in gaps), max(gap.value for gap in gaps)
        yield (
            Value(_title(metric)),
            _count(len(gaps)),
            _count(better, "good"),
            _count(len(clear) - better, "bad"),
            _count(len(gaps) - len(clear)),
            Value(signed(metric.write(low)), sort=low),
            Value(signed(metric.write(high)), sort=high),
        )


def _count(n: int, tone: Tone = "") -> Value:
    return Value(f"{n:,}", sort=float(n), tone=tone if n else "")


def rate_table(found: Comparison, rate_per_s: float) -> Table:
    """One row a policy: B − A in every metric, with its interval and the two figures."""
    columns = (
        Column("policy", numeric=False),
        *(Column(_title(metric)) for metric in found.metrics),
        Column("n", "scheduled requests, seeds of both sweeps"),
    )
    rows = []
    for couple in found.matched.couples:
        point = couple.a.point
        if point.rate_per_s != rate_per_s:
            continue
        gaps = {gap.metric.name: gap for gap in found.gaps if gap.couple is couple}
        sub = "settings differ under this label" if couple.other_policy else ""
        seeds = ", ".join(str(cell.spec.seed) for cell in point.cells)
        scheduled = point.metrics.counts.scheduled
        rows.append(
            (
                Value(point.label, sub=sub, mark=point.family),
                *(_gap(gaps[metric.name]) for metric in found.metrics),
                Value(f"{scheduled:,}", sub=f"seeds {seeds}", sort=float(scheduled)),
            )
        )
    note = "B − A, paired by prompt; below it the interval, and A → B. Coloured where it excludes zero."
    return with_footnote(Table(f"λ = {rate_per_s:g} req/s", note, columns, tuple(rows)))


def _gap(found: Gap) -> Value:
    metric, gap = found.metric, found.gap
    if gap.value != gap.value:
        return Value(UNKNOWN, hint=gap.reason, tone="mute")
    tone: Tone = ""
    if gap.excludes_zero:
        tone = "good" if (gap.value > 0) == metric.higher_is_better else "bad"
    both = f"{metric.write(found.a)} → {metric.write(found.b)}"
    is_same = gap.value == 0.0 and gap.status == "degenerate"
    value = Value(
        "same" if is_same else signed(metric.write(gap.value)),
        sub=both if is_same else f"{span(gap, lambda bound: signed(metric.write(bound)))} · {both}",
        sort=gap.value,
        hint=gap.reason,
        tone=tone,
    )
    if not metric.depends_on_length:
        return value
    return marked(value, found.couple.a.point, found.couple.b.point)


def settings_table(found: Comparison) -> Table:
    """Keys of the two manifests that differ."""
    columns = (Column("key", numeric=False), Column("A", numeric=False), Column("B", numeric=False))
    rows = tuple(
        (Value(each.key), Value(each.a or UNKNOWN), Value(each.b or UNKNOWN)) for each in found.settings
    )
    return Table("What else differs", "From the manifests of both.", columns, rows)


def coverage_line(found: Comparison) -> str:
    """How much is compared, and how much stands in one of the two alone."""
    matched = found.matched
    policies = len({couple.a.point.label for couple in matched.couples})
    shares = f"{len(matched.only_a)} cells in A alone, {len(matched.only_b)} in B alone"
    return (
        f"{len(matched.couples)} points ({policies} policies at {len(found.rates_per_s)} rates) are in both, "
        f"on the same workloads; {shares}. {percent(LEVEL)} intervals from "
        f"{found.resampling.n_resamples:,} resamples of prompts, shared by both."
    )


def _title(metric: Metric) -> str:
    """A metric's name as words, and its unit."""
    stem = metric.name.removesuffix("_usd").removesuffix("_per_s").removesuffix("_s")
    words = " ".join(_ACRONYMS.get(word, word) for word in stem.split("_"))
    return f"{words}, {metric.unit}" if metric.unit else words
