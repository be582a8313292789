"""Where the time before an assignment goes, and a warning where it is the decision that holds requests up."""

from __future__ import annotations

from collections.abc import Iterator

from rbx.report.analysis import Analysis, PointResult, RateResult
from rbx.report.answer import few
from rbx.report.number import milliseconds, percent, significant
from rbx.report.point import Point
from rbx.report.rate_tables import policy
from rbx.report.table import Column, Table, Tone, Value, number

# A mean wait beyond any batching window says that requests queue for the decision itself.
SATURATED_WAIT_S = 1.0
# So does half of the time to first token, unless it is within the longest window of the batch table.
SATURATED_TTFT_SHARE = 0.5
LONGEST_WINDOW_S = 0.2


def is_saturated(point: Point) -> bool:
    """Whether requests wait for the decision loop, by ``SATURATED_WAIT_S`` and ``SATURATED_TTFT_SHARE``."""
    wait_s = point.metrics.decision.batch_wait_s
    return wait_s > SATURATED_WAIT_S or (wait_s > LONGEST_WINDOW_S and _outweighs(point))


def saturation_warnings(analysis: Analysis) -> Iterator[str]:
    """Up to two sentences: policies held up by the decision alone, and those where servers queue too."""
    found = [result.point for result in analysis.results if is_saturated(result.point)]
    encoder = (analysis.sweep.manifest.get("bundle") or {}).get("encoder") or "of an unknown name"
    for points, words in (
        ([p for p in found if _outweighs(p)], "the decision loop, not the servers, is saturated"),
        ([p for p in found if not _outweighs(p)], "the decision loop is saturated, and servers queue too"),
    ):
        if points:
            waits = [point.metrics.decision.batch_wait_s for point in points]
            low, high = significant(min(waits)), significant(max(waits))
            yield (
                f"In {len(points)} of {len(analysis.results)} cells (policy × rate) {words} (encoder "
                f"{encoder}): a request waits {low if low == high else f'{low} to {high}'} s for its batch. "
                f"Policies: {few([point.label for point in points])}."
            )


def decisions_table(rate: RateResult) -> Table:
    """Batch wait, encoding and scoring of each policy of a rate, and their share of TTFT."""
    columns = (
        Column("policy", numeric=False),
        Column("n", "sent requests, all seeds"),
        Column("batch wait, ms", "from arrival to the batch's start"),
        Column("encode, ms", "embedding the prompts of the batch"),
        Column("score, ms", "heads, objective and assignment"),
        Column("total, ms"),
        Column("of TTFT", "Σ decision time ÷ Σ TTFT, over completed requests"),
        Column("batch size", "mean over batches"),
        Column("hopeless", "share that no instance was predicted to serve in time"),
        Column("fallback", "share placed without the policy, since it or the heads failed"),
    )
    rows = tuple(_row(result, rate.baseline) for result in rate.results)
    return Table("Decision time", "Means over sent requests, all seeds.", columns, rows)


def _row(result: PointResult, baseline: PointResult | None) -> tuple[Value, ...]:
    m, d = result.point.metrics, result.point.metrics.decision
    tone: Tone = "bad" if is_saturated(result.point) else ""
    wait = number(d.batch_wait_s, milliseconds)
    return (
        policy(result, baseline),
        Value(f"{d.n:,}", sort=float(d.n)),
        Value(wait.text, sort=wait.sort, tone=tone),
        number(d.encode_s, milliseconds),
        number(d.score_s, milliseconds),
        number(d.total_s, milliseconds),
        number(d.ttft_share, lambda share: percent(share, 1)),
        number(d.batch_size, significant),
        number(m.hopeless_share, percent),
        number(m.fallback_share, percent),
    )


def _outweighs(point: Point) -> bool:
    return point.metrics.decision.batch_wait_s > SATURATED_TTFT_SHARE * point.metrics.ttft_s.mean
