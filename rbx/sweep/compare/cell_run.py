"""One live cell as arrays: which request reached which server when, and when each token came back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rbx.config.pool import Pool
from rbx.errors import StoreError
from rbx.sweep.live.table import read_live
from rbx.sweep.store import CellSpec, SweepStore

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


# Of an answer's tokens: where more have no chunk of their own, stamps say nothing of single steps.
_HELD_BACK = 0.1


@dataclass(frozen=True)
class CellRun:
    """N requests of one cell in workload order; times in seconds from the cell's start, NaN: never.

    ``instance`` indexes the pool's, −1 where nobody told who served. ``closed_s`` is when the last of an
    answer came, tokens or not; ``by_length`` says that its cap ended it. ``chunk_s`` and ``chunk_tokens``
    are those of all requests in one row, ``first_chunk`` (N + 1,) where each one's begin.
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
    closed_s: Floats
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

        A last token without text (an end-of-sequence token) came with the end of the answer. A few more
        whose text was held back, as of half a character, came within the longest gaps between chunks.
        """
        chunks = slice(self.first_chunk[row], self.first_chunk[row + 1])
        stamps = np.repeat(self.chunk_s[chunks], self.chunk_tokens[chunks])
        lacking = int(self.output_tokens[row]) - len(stamps)
        if lacking > 0 and len(stamps) and self.ok[row]:
            stamps = np.append(stamps, max(self.closed_s[row], stamps[-1]))
            held_back = lacking - 1
            if held_back <= _HELD_BACK * len(stamps):
                gaps = np.argsort(-np.diff(stamps), kind="stable")[:held_back]
                stamps = np.sort(np.append(stamps, (stamps[gaps] + stamps[gaps + 1]) / 2))
                lacking = 0
        return stamps if lacking == 0 and len(stamps) else None


def to_cell_run(spec: CellSpec, records: pa.Table, live: pa.Table, pool: Pool) -> CellRun:
    """Join the ``RECORDS`` of a cell with its ``LIVE`` rows, by request.

    A request whose dispatch nobody told of is taken to have reached its instance when it was sent. An
    answer whose finish reason is unknown ended by its length if it is as long as its cap.
    """
    records = records.sort_by("request")
    request = _ints(records["request"])
    rows = live.take(pc.index_in(pa.array(request), value_set=_request_numbers(live)))
    output_tokens, cap = _ints(records["output_tokens"]), _ints(records["max_tokens"])
    dispatched_s, sent_s, done_s = (_floats(records[name]) for name in ("dispatched_s", "sent_s", "done_s"))
    sizes = _ints(pc.list_value_length(rows["chunk_s"]))
    return CellRun(
        spec=spec,
        request=request,
        ok=np.asarray(pc.equal(records["status"].cast(pa.string()), "ok").to_numpy(), dtype=np.bool_),
        instance=_instances(records["instance"], pool),
        attempts=_ints(records["attempt"]),
        scheduled_s=_floats(records["scheduled_s"]),
        sent_s=sent_s,
        dispatched_s=np.where(np.isnan(dispatched_s), sent_s, dispatched_s),
        first_token_s=_floats(records["first_token_s"]),
        done_s=done_s,
        closed_s=np.fmax(_floats(rows["closed_s"]), done_s),
        input_tokens=_ints(records["input_tokens"]),
        output_tokens=output_tokens,
        by_length=_by_length(rows["finish_reason"], at_cap=(output_tokens >= cap) & (cap > 0)),
        chunk_s=_floats(pc.list_flatten(rows["chunk_s"])),
        chunk_tokens=_ints(pc.list_flatten(rows["chunk_tokens"])),
        first_chunk=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    )


def read_cell_run(store: SweepStore, spec: CellSpec, pool: Pool) -> CellRun:
    """Read a finished live cell of ``store``; raises ``StoreError`` where it kept no stamps."""
    path = store.records_path(spec.cell_id)
    try:
        records = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{path}: can't be read: {error}") from None
    return to_cell_run(spec, records, read_live(store.folder, spec.cell_id), pool)


def _request_numbers(live: pa.Table) -> pa.Array:
    return live["request"].cast(pa.int64()).combine_chunks()


def _by_length(reason: pa.ChunkedArray, *, at_cap: Bools) -> Bools:
    word = reason.cast(pa.string())
    told = np.asarray(pc.is_valid(word).to_numpy(), dtype=np.bool_)
    cut = np.asarray(pc.fill_null(pc.equal(word, "length"), False).to_numpy(), dtype=np.bool_)
    return np.where(told, cut, at_cap)


def _instances(names: pa.ChunkedArray, pool: Pool) -> Ints:
    known = pa.array([instance.name for instance in pool.instances])
    return _ints(pc.index_in(names.cast(pa.string()), value_set=known), absent=-1)


def _ints(column: pa.Array | pa.ChunkedArray, absent: int = 0) -> Ints:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), absent).to_numpy(), dtype=np.int64)


def _floats(column: pa.Array | pa.ChunkedArray) -> Floats:
    return np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
