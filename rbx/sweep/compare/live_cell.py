"""One live cell as arrays: which request reached which server when, and when each token came back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rbx.config.pool import Pool
from rbx.sweep.store import CellSpec

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class LiveCell:
    """N requests of one cell in workload order; times in seconds from the cell's start, NaN: never.

    ``instance`` indexes the pool's, −1 where nobody told who served. ``by_length`` says that the cap ended
    the answer. ``chunk_s`` and ``chunk_tokens`` are those of all requests in one row, ``first_chunk``
    (N + 1,) where each one's begin.
    """

    spec: CellSpec
    request: Ints
    ok: Bools
    instance: Ints
    attempts: Ints
    scheduled_s: Floats
    sent_s: Floats
    dispatched_s: Floats
    first_token_s: Floats
    done_s: Floats
    input_tokens: Ints
    output_tokens: Ints
    by_length: Bools
    chunk_s: Floats
    chunk_tokens: Ints
    first_chunk: Ints

    def __len__(self) -> int:
        """N."""
        return len(self.request)

    @property
    def placed(self) -> Bools:
        """Requests that are known to have reached an instance, with a prompt of known length."""
        known = (self.instance >= 0) & np.isfinite(self.dispatched_s) & (self.input_tokens >= 1)
        return np.asarray(known, dtype=np.bool_)

    def tokens_s(self, row: int) -> Floats | None:
        """When each token of an answer came, (output tokens,); None where the chunks do not tell.

        A last token without text (an end-of-sequence token) came with the end of the answer.
        """
        chunks = slice(self.first_chunk[row], self.first_chunk[row + 1])
        stamps = np.repeat(self.chunk_s[chunks], self.chunk_tokens[chunks])
        lacking = int(self.output_tokens[row]) - len(stamps)
        if lacking == 1 and len(stamps) and self.ok[row]:
            stamps = np.append(stamps, max(self.done_s[row], stamps[-1]))
            lacking = 0
        return stamps if lacking == 0 and len(stamps) else None


def to_live_cell(
    spec: CellSpec, records: pa.Table, live: pa.Table, stopped: pa.Table, pool: Pool
) -> LiveCell:
    """Join the records of a cell with its stamps (``live``) and finish reasons (``stopped``), by request.

    ``records`` has the columns of ``RECORDS``; ``live`` at least request, chunk_s and chunk_tokens;
    ``stopped`` request and finish_reason: an answer that it lacks ended by its length if it is as long as
    its cap. The sole instance of a pool serves what nobody else is said to have served.
    """
    records = records.sort_by("request")
    request = _ints(records["request"])
    output_tokens, cap = _ints(records["output_tokens"]), _ints(records["max_tokens"])
    instance = _instances(records["instance"], pool)
    dispatched_s = _floats(records["dispatched_s"])
    if len(pool.instances) == 1:
        instance = np.zeros(len(request), dtype=np.int64)
        dispatched_s = np.where(np.isnan(dispatched_s), _floats(records["sent_s"]), dispatched_s)
    chunk_s, chunk_tokens, first_chunk = _chunks(request, live)
    return LiveCell(
        spec=spec,
        request=request,
        ok=np.asarray(pc.equal(records["status"].cast(pa.string()), "ok").to_numpy(), dtype=np.bool_),
        instance=instance,
        attempts=_ints(records["attempt"]),
        scheduled_s=_floats(records["scheduled_s"]),
        sent_s=_floats(records["sent_s"]),
        dispatched_s=dispatched_s,
        first_token_s=_floats(records["first_token_s"]),
        done_s=_floats(records["done_s"]),
        input_tokens=_ints(records["input_tokens"]),
        output_tokens=output_tokens,
        by_length=_by_length(request, stopped, at_cap=(output_tokens >= cap) & (cap > 0)),
        chunk_s=chunk_s,
        chunk_tokens=chunk_tokens,
        first_chunk=first_chunk,
    )


def _chunks(request: Ints, live: pa.Table) -> tuple[Floats, Ints, Ints]:
    """Chunks of all requests in the order of ``request``; those that ``live`` lacks have none."""
    at = pc.index_in(pa.array(request), value_set=live["request"].combine_chunks().cast(pa.int64()))
    rows = live.select(["chunk_s", "chunk_tokens"]).take(at)
    stamps, tokens = (rows[name].combine_chunks() for name in ("chunk_s", "chunk_tokens"))
    sizes = _ints(pc.list_value_length(stamps))
    first_chunk = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return _floats(stamps.flatten()), _ints(tokens.flatten()), first_chunk


def _by_length(request: Ints, stopped: pa.Table, *, at_cap: Bools) -> Bools:
    at = pc.index_in(pa.array(request), value_set=stopped["request"].combine_chunks().cast(pa.int64()))
    reason = stopped["finish_reason"].take(at)
    told = np.asarray(pc.is_valid(reason).to_numpy(), dtype=np.bool_)
    cut = np.asarray(pc.fill_null(pc.equal(reason, "length"), False).to_numpy(), dtype=np.bool_)
    return np.where(told, cut, at_cap)


def _instances(names: pa.ChunkedArray, pool: Pool) -> Ints:
    known = pa.array([instance.name for instance in pool.instances])
    return _ints(pc.index_in(names.cast(pa.string()), value_set=known), absent=-1)


def _ints(column: pa.Array | pa.ChunkedArray, absent: int = 0) -> Ints:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), absent).to_numpy(), dtype=np.int64)


def _floats(column: pa.Array | pa.ChunkedArray) -> Floats:
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
