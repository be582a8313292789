"""Whether a cell adds up: every scheduled request is accounted for, once, with sane numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rbx.sweep.records import MODELS_ASKED, SCORING_WAIT, STATUSES
from rbx.sweep.store import CellSpec, CellSummary

# Times of one request are written as float64; an order broken by less than this is rounding.
CLOCK_TOLERANCE_S = 1e-6
_NEVER_NULL = ("cell_id", "request", "prompt_id", "scheduled_s", "status")
# A request that completed was sent somewhere, cost something and ended: a null would count as nothing.
_KNOWN_WHERE_OK = (
    "sent_s",
    "done_s",
    "model",
    "tier",
    "output_tokens",
    "cost_usd",
    "exhausted",
    "decision_mode",
    "quality_status",
)
_NEVER_NEGATIVE = (
    "scheduled_s",
    "sent_s",
    "first_token_s",
    "done_s",
    "input_tokens",
    "output_tokens",
    "quality",
    "cost_usd",
    SCORING_WAIT.name,
    "batch_wait_s",
    "encode_s",
    "score_s",
    "batch_size",
    "preemptions",
    "ttft_target_s",
    "predicted_ttft_s",
    "on_time_candidates",
)


def faults(
    records: pa.Table,
    summary: CellSummary,
    spec: CellSpec,
    *,
    has_targets: bool,
    has_ttft_targets: bool,
    has_costs: bool = True,
) -> list[str]:
    """Everything that keeps a cell from being reported, in words; empty where it adds up.

    ``records`` has the columns of ``RECORDS`` in their types; ``has_targets`` says whether the
    workload has targets that a request meets or misses, ``has_ttft_targets`` whether TTFT is among them,
    ``has_costs`` whether anybody knows prices.
    """
    holes = [name for name in _NEVER_NULL if records[name].null_count]
    if holes:
        return [f"column {name} holds {records[name].null_count} nulls" for name in holes]
    if spec.n_requests == 0 or records.num_rows == 0:
        return ["the cell holds no request"]
    return [
        *_count_faults(records, summary, spec),
        *_request_faults(records, spec),
        *_number_faults(records),
        *_unknown_faults(records, has_targets=has_targets, has_costs=has_costs),
        *_target_faults(records, has_ttft_targets=has_ttft_targets),
        *_score_faults(records),
        *_cascade_faults(records),
        *_order_faults(records, is_live=summary.live is not None),
    ]


def _count_faults(records: pa.Table, summary: CellSummary, spec: CellSpec) -> Iterator[str]:
    counted = dict.fromkeys(STATUSES, 0)
    for entry in records["status"].cast(pa.string()).value_counts().to_pylist():
        counted[entry["values"]] = entry["counts"]
    unknown = sorted(set(counted) - set(STATUSES))
    if unknown:
        yield f"unknown status {', '.join(map(repr, unknown))}"
    if summary.scheduled != summary.sent + summary.not_sent:
        yield f"scheduled {summary.scheduled} ≠ sent {summary.sent} + not sent {summary.not_sent}"
    ends = summary.ok + summary.error + summary.timeout + summary.cancelled
    if summary.sent != ends:
        yield f"sent {summary.sent} ≠ ok + error + timeout + cancelled = {ends}"
    if records.num_rows != summary.scheduled:
        yield f"{records.num_rows} records for {summary.scheduled} scheduled requests"
    if spec.n_requests != summary.scheduled:
        yield f"{summary.scheduled} requests scheduled, the plan says {spec.n_requests}"
    for status in STATUSES:
        if counted[status] != getattr(summary, status):
            yield f"{counted[status]} records are {status}, the summary says {getattr(summary, status)}"


def _request_faults(records: pa.Table, spec: CellSpec) -> Iterator[str]:
    request = records["request"].to_numpy()
    outside = request[(request < 0) | (request >= spec.n_requests)]
    if len(outside):
        yield f"{len(outside)} requests lie outside the {spec.n_requests} planned, as request {outside[0]}"
    unique, counts = np.unique(request, return_counts=True)
    if len(unique) < len(request):
        twice = unique[counts > 1]
        yield f"{len(twice)} requests stand more than once, the first is request {twice[0]}"


def _number_faults(records: pa.Table) -> Iterator[str]:
    for name in [name for name in _NEVER_NEGATIVE if name in records.column_names]:
        values = pc.drop_null(records[name]).to_numpy()
        if not np.isfinite(values).all():
            yield f"column {name} holds NaN or infinity where it isn't null"
        elif (values < 0).any():
            yield f"column {name} holds a negative value: {values.min():g}"
        elif name == "quality" and (values > 1).any():
            yield f"column quality holds {values.max():g}, above 1"


def _unknown_faults(records: pa.Table, *, has_targets: bool, has_costs: bool) -> Iterator[str]:
    ok = records.filter(pc.equal(records["status"].cast(pa.string()), "ok"))
    known = [name for name in _KNOWN_WHERE_OK if has_costs or name != "cost_usd"]
    for name in (*known, *(("slo_met",) if has_targets else ())):
        lost = np.asarray(pc.is_null(ok[name]).to_numpy(), dtype=np.bool_)
        if lost.any():
            yield f"{lost.sum()} ok requests have no {name}, the first is request {_first(ok, lost)}"
    if not has_targets and records["slo_met"].null_count < records.num_rows:
        yield "column slo_met holds values, but the workload has no target"


def _target_faults(records: pa.Table, *, has_ttft_targets: bool) -> Iterator[str]:
    """Every scheduled request is early or late, failed ones too: a target that is lost can't be judged."""
    target_s = records["ttft_target_s"]
    if has_ttft_targets and target_s.null_count:
        yield f"{target_s.null_count} requests have no ttft_target_s, but the workload has TTFT targets"
    if not has_ttft_targets and target_s.null_count < records.num_rows:
        yield "column ttft_target_s holds values, but the workload has no TTFT target"


def _score_faults(records: pa.Table) -> Iterator[str]:
    """A missing score has a status that says why; zero is a score."""
    ok = records.filter(pc.equal(records["status"].cast(pa.string()), "ok"))
    claimed = pc.fill_null(pc.equal(ok["quality_status"].cast(pa.string()), "ok"), False)
    torn = np.asarray(pc.xor(pc.is_valid(ok["quality"]), claimed).to_numpy(), dtype=np.bool_)
    if torn.any():
        words = "ok requests have a quality_status at odds with quality"
        yield f"{torn.sum()} {words}, as request {_first(ok, torn)}"


def _cascade_faults(records: pa.Table) -> Iterator[str]:
    """Who has an answer was answered by somebody, and who has none by nobody."""
    if MODELS_ASKED.name not in records.column_names:
        return
    ok = np.asarray(pc.equal(records["status"].cast(pa.string()), "ok").to_numpy(), dtype=np.bool_)
    asked = pc.fill_null(records[MODELS_ASKED.name], 0).to_numpy()
    torn = ok != (asked >= 1)
    if torn.any():
        words = "requests have models_asked at odds with status"
        yield f"{torn.sum()} {words}, as request {_first(records, torn)}"


def _order_faults(records: pa.Table, *, is_live: bool) -> Iterator[str]:
    ok = records.filter(pc.equal(records["status"].cast(pa.string()), "ok"))
    times = {
        name: np.asarray(ok[name].to_numpy(), dtype=np.float64)
        for name in ("scheduled_s", "sent_s", "first_token_s", "done_s")
    }
    tokens = pc.fill_null(ok["output_tokens"], 0).to_numpy()
    mute = np.isnan(times["first_token_s"]) & (tokens > 0)
    # A server may count tokens that it never shows; a simulated one can't.
    if mute.any() and not is_live:
        yield f"{mute.sum()} ok requests have tokens but no first_token_s, as request {_first(ok, mute)}"
    for early, late in (("scheduled_s", "sent_s"), ("sent_s", "first_token_s"), ("first_token_s", "done_s")):
        turned = times[late] < times[early] - CLOCK_TOLERANCE_S
        if turned.any():
            yield f"{turned.sum()} requests have {late} before {early}, as request {_first(ok, turned)}"


def _first(records: pa.Table, mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    return int(records["request"][int(np.argmax(mask))].as_py())
