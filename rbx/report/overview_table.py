"""The first table of the page: policies by quality, latency and cost, and whether they keep up."""

from __future__ import annotations

from rbx.report.analysis import PointResult, RateResult
from rbx.report.keeping_up import OVERLOADED_MARK, UNTOLD_MARK
from rbx.report.number import score, significant, usd_per_thousand
from rbx.report.overload_mark import marked, with_footnote
from rbx.report.point import Point
from rbx.report.table import Column, Table, Value, estimate

_NOTE = (
    "Best quality first. Latency over completed requests, quality over scored ones; [95 % intervals] over "
    "prompts. Two policies differ surely where the interval of their difference excludes zero, not where "
    "these two don't overlap."
)
_REFERENCES = " References, which know what nobody knows of a live request, stand last."


def overview_table(rate: RateResult) -> Table:
    """One row a policy, references last."""
    columns = (
        Column("policy", numeric=False),
        Column("quality", "mean over scored requests [interval]"),
        Column("mean E2E, s", "over completed requests, from the scheduled send to the last token"),
        Column("p99 E2E, s"),
        Column("$ / 1,000", "USD spent on all requests per 1,000 completed ones"),
        Column("req/s", "completed before the last arrival ÷ arrival window"),
        Column("keeps up", "whether what arrives completes, in the second half of the run", numeric=False),
    )
    ordered = sorted(rate.results, key=_order)
    note = _NOTE + (_REFERENCES if any(result.point.is_reference for result in ordered) else "")
    rows = tuple(_row(result, rate) for result in ordered)
    return with_footnote(Table("All policies", note, columns, rows))


def _order(result: PointResult) -> tuple[bool, float]:
    """Rivals before references; those without a quality last among them."""
    quality = result.point.metrics.quality_mean
    return result.point.is_reference, float("inf") if quality != quality else -quality


def _row(result: PointResult, rate: RateResult) -> tuple[Value, ...]:
    point = result.point
    return (
        Value(point.label, sub=_part(result, rate), mark=point.family),
        estimate(result.means["quality"], score),
        marked(estimate(result.means["e2e_s"], significant), point),
        marked(estimate(result.tails["e2e_s", 0.99], significant), point),
        estimate(result.means["cost_usd"], usd_per_thousand),
        estimate(result.means["throughput_per_s"], significant),
        _keeps_up(point),
    )


def _part(result: PointResult, rate: RateResult) -> str:
    if result is rate.baseline:
        return "baseline"
    return "reference" if result.point.is_reference else ""


def _keeps_up(point: Point) -> Value:
    if point.keeps_up is None:
        return Value("can't be told", flag=UNTOLD_MARK)
    if point.keeps_up:
        return Value("yes", tone="good")
    return Value("no", tone="bad", flag=OVERLOADED_MARK)
