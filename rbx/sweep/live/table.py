"""What a live cell knows of its requests beyond ``RECORDS``: stamps at the socket, chunks, the answer's hash.

``live/CELL.parquet`` holds one row a request, in workload order, as the cell's records do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rbx.durable import write_table
from rbx.errors import StoreError

FOLDER = "live"

_TEXT = pa.dictionary(pa.int32(), pa.string())

# Times are seconds from the start of the cell; null where it never happened.
LIVE = pa.schema(
    [
        pa.field("request", pa.int32(), nullable=False),  # position in the workload
        ("first_byte_s", pa.float64()),  # of the answer, headers included
        ("first_answer_s", pa.float64()),  # first content after any reasoning
        ("last_token_s", pa.float64()),
        ("closed_s", pa.float64()),  # the answer's end, with all that follows the last token
        ("chunk_s", pa.list_(pa.float32())),  # of chunks that held output
        ("chunk_tokens", pa.list_(pa.int32())),
        ("http_status", pa.int16()),
        ("fault", _TEXT),
        ("detail", pa.string()),
        ("attempts", pa.int16()),  # instances that the gateway tried
        ("gateway_mode", _TEXT),  # how the gateway says it was placed: policy | hopeless | shed | fallback
        ("request_id", pa.string()),
        ("cached_tokens", pa.int32()),
        ("asked_tokens", pa.int32()),  # output tokens that were to be expected; see docs/live.md
        ("usage_disagrees", pa.bool_()),
        ("finish_reason", _TEXT),
        ("text_sha256", pa.string()),  # of the answer without its reasoning; null where nothing was answered
        ("text_matches", pa.bool_()),  # the grid's answer, spaces around it aside; null: nothing to compare
    ]
)


def live_table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Rows in workload order as ``LIVE``."""
    return pa.Table.from_pylist(list(rows), schema=LIVE)


def write_live(sweep: Path, cell_id: str, table: pa.Table) -> str:
    """Keep one cell's table; returns the digest of its file, for the cell's summary."""
    path = _path(sweep, cell_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(table, path)
    return _sha256(path)


def table_fault(sweep: Path, cell_id: str, sha256: str | None) -> str | None:
    """What is wrong with a cell's file, of which its summary says ``sha256``; None where nothing is."""
    if sha256 is None:
        return None
    path = _path(sweep, cell_id)
    try:
        same = _sha256(path) == sha256
    except FileNotFoundError:
        return f"{FOLDER}/{path.name} is missing"
    except OSError as error:
        return f"{FOLDER}/{path.name} can't be read: {error.strerror or error}"
    return None if same else f"{FOLDER}/{path.name} is not the file its summary was written for"


def read_live(sweep: Path, cell_id: str) -> pa.Table:
    """One live cell's table; raises ``StoreError`` where it is missing, or is another kind of file."""
    path = _path(sweep, cell_id)
    try:
        return pq.read_table(path).select(LIVE.names).cast(LIVE)
    except FileNotFoundError:
        raise StoreError(
            f"{path}: missing, and with it the stamps of this live cell; delete cells/{cell_id}.json and run "
            "the sweep again to measure it anew"
        ) from None
    except (pa.ArrowException, OSError, KeyError) as error:
        raise StoreError(f"{path}: not the table of a live cell: {error}") from None


def _path(sweep: Path, cell_id: str) -> Path:
    return sweep / FOLDER / f"{cell_id}.parquet"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
