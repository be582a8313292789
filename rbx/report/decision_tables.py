"""Where the time before an assignment goes, and a warning where it is the decision that holds requests up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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

Wait = Callable[[Point], float]


def batch_wait_s(point: Point) -> float:
    """The mean wait for the decision loop, in seconds."""
    return point.metrics.decision.batch_wait_s


def scoring_wait_s(point: Point) -> float:
    """The mean wait for a scoring call before the batch, in seconds."""
    return point.metrics.decision.scoring_wait_s


def is_saturated(point: Point, wait: Wait) -> bool:
    """Whether such a wait says that requests queue, by ``SATURATED_WAIT_S`` and ``SATURATED_TTFT_SHARE``."""
    wait_s = wait(point)
    return wait_s > SATURATED_WAIT_S or (wait_s > LONGEST_WINDOW_S and _outweighs(point, wait))


def saturation_warnings(analysis: Analysis) -> Iterator[str]:
    """Policies held up by decision or scoring alone, and those where servers queue too: a sentence each."""
    encoder = (analysis.sweep.manifest.get("bundle") or {}).get("encoder") or "of an unknown name"
    for wait, what, awaited in (
        (batch_wait_s, "the decision loop", "for its batch"),
        (scoring_wait_s, "the scoring of prompts", "to be scored"),
    ):
        found = [result.point for result in analysis.results if is_saturated(result.point, wait)]
        for points, words in (
            ([p for p in found if _outweighs(p, wait)], f"{what}, not the servers, is saturated"),
            ([p for p in found if not _outweighs(p, wait)], f"{what} is saturated, and servers queue too"),
        ):
            if points:
                waits = [wait(point) for point in points]
                low, high = significant(min(waits)), significant(max(waits))
                yield (
                    f"In {len(points)} of {len(analysis.results)} cells (policy × rate) {words} (encoder "
                    f"{encoder}): a request waits {low if low == high else f'{low} to {high}'} s {awaited}. "
                    f"Policies: {few([point.label for point in points])}."
                )


def decisions_table(rate: RateResult) -> Table:
    """Waits, encoding and scoring of each policy of a rate, and their share of TTFT.

    The wait for a scoring call has a column where some policy has prompts scored before their batch.
    """
    apart = any(scoring_wait_s(result.point) > 0 for result in rate.results)
    scoring = (Column("scoring wait, ms", "from arrival to a scoring call before the batch"),)
    columns = (
        Column("policy", numeric=False),
        Column("n", "sent requests, all seeds"),
        *(scoring if apart else ()),
        Column("batch wait, ms", "from arrival, or the scoring before, to the batch's start"),
        Column("encode, ms", "embedding the prompts, in the batch or before"),
        Column("score, ms", "heads, objective and assignment"),
        Column("total, ms"),
        Column("of TTFT", "Σ decision time ÷ Σ TTFT, over completed requests"),
        Column("batch size", "mean over batches"),
        Column("hopeless", "share that no instance was predicted to serve in time"),
        Column("fallback", "share placed without the policy, since it or the heads failed"),
    )
    rows = tuple(_row(result, rate.baseline, apart=apart) for result in rate.results)
    return Table("Decision time", "Means over sent requests, all seeds.", columns, rows)


def _row(result: PointResult, baseline: PointResult | None, *, apart: bool) -> tuple[Value, ...]:
    m, d = result.point.metrics, result.point.metrics.decision
    return (
        policy(result, baseline),
        Value(f"{d.n:,}", sort=float(d.n)),
        *((_shown(result.point, scoring_wait_s),) if apart else ()),
        _shown(result.point, batch_wait_s),
        number(d.encode_s, milliseconds),
        number(d.score_s, milliseconds),
        number(d.total_s, milliseconds),
        number(d.ttft_share, lambda share: percent(share, 1)),
        number(d.batch_size, significant),
        number(m.hopeless_share, percent),
        number(m.fallback_share, percent),
    )


def _shown(point: Point, wait: Wait) -> Value:
    shown = number(wait(point), milliseconds)
    tone: Tone = "bad" if is_saturated(point, wait) else ""
    return Value(shown.text, sort=shown.sort, tone=tone)


def _outweighs(point: Point, wait: Wait) -> bool:
    return wait(point) > SATURATED_TTFT_SHARE * point.metrics.ttft_s.mean
