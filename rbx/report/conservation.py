"""Whether a cell adds up: every scheduled request is accounted for, once, with sane numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rbx.sweep.records import RECORDS, STATUSES
from rbx.sweep.store import CellSpec, CellSummary

# Times of one request are written as float64; an order broken by less than this is rounding.
CLOCK_TOLERANCE_S = 1e-6
_NEVER_NULL = ("request", "prompt_id", "scheduled_s", "status")


def faults(records: pa.Table, summary: CellSummary, spec: CellSpec) -> list[str]:
    """Everything that keeps a cell from being reported, in words; empty where it adds up."""
    missing = [name for name in RECORDS.names if name not in records.column_names]
    if missing:
        return [f"the records lack the columns {', '.join(missing)}"]
    holes = [name for name in _NEVER_NULL if records[name].null_count]
    if holes:
        return [f"column {name} holds {records[name].null_count} nulls" for name in holes]
    if spec.n_requests == 0 or records.num_rows == 0:
        return ["the cell holds no request"]
    return [
        *_count_faults(records, summary, spec),
        *_duplicate_faults(records),
        *_number_faults(records),
        *_order_faults(records),
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


def _duplicate_faults(records: pa.Table) -> Iterator[str]:
    request = records["request"].to_numpy()
    unique, counts = np.unique(request, return_counts=True)
    if len(unique) < len(request):
        twice = unique[counts > 1]
        yield f"{len(twice)} requests stand more than once, the first is request {twice[0]}"


def _number_faults(records: pa.Table) -> Iterator[str]:
    for name in ("scheduled_s", "sent_s", "first_token_s", "done_s", "quality", "cost_usd"):
        values = pc.drop_null(records[name]).to_numpy()
        if not np.isfinite(values).all():
            yield f"column {name} holds NaN or infinity where it isn't null"
        elif (values < 0).any():
            yield f"column {name} holds a negative value"
        elif name == "quality" and (values > 1).any():
            yield f"column quality holds {values.max():g}, above 1"


def _order_faults(records: pa.Table) -> Iterator[str]:
    ok = records.filter(pc.equal(records["status"].cast(pa.string()), "ok"))
    times = {
        name: np.asarray(ok[name].to_numpy(), dtype=np.float64)
        for name in ("scheduled_s", "sent_s", "first_token_s", "done_s")
    }
    for name in ("sent_s", "done_s"):
        lost = np.isnan(times[name])
        if lost.any():
            yield f"{lost.sum()} ok requests have no {name}, the first is request {_first(ok, lost)}"
    tokens = pc.fill_null(ok["output_tokens"], 0).to_numpy()
    mute = np.isnan(times["first_token_s"]) & (tokens > 0)
    if mute.any():
        yield f"{mute.sum()} ok requests have tokens but no first_token_s, as request {_first(ok, mute)}"
    for early, late in (("scheduled_s", "sent_s"), ("sent_s", "first_token_s"), ("first_token_s", "done_s")):
        turned = times[late] < times[early] - CLOCK_TOLERANCE_S
        if turned.any():
            yield f"{turned.sum()} requests have {late} before {early}, as request {_first(ok, turned)}"


def _first(records: pa.Table, mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    return int(records["request"][int(np.argmax(mask))].as_py())
