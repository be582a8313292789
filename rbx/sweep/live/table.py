"""What a live cell knows of its requests beyond ``RECORDS``: stamps at the socket, chunks, the answer's hash.

``live/CELL.parquet`` holds one row a request, in workload order, as the cell's records do.
"""

from __future__ import annotations

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


def write_live(sweep: Path, cell_id: str, table: pa.Table) -> None:
    """Keep one cell's table."""
    (sweep / FOLDER).mkdir(parents=True, exist_ok=True)
    write_table(table, sweep / FOLDER / f"{cell_id}.parquet")


def read_live(sweep: Path, cell_id: str) -> pa.Table:
    """One cell's table; raises ``StoreError`` where there is none, or it is another kind of file."""
    path = sweep / FOLDER / f"{cell_id}.parquet"
    try:
        return pq.read_table(path).select(LIVE.names).cast(LIVE)
    except FileNotFoundError:
        raise StoreError(f"{path}: no such file; only a live sweep has some") from None
    except (pa.ArrowException, OSError, KeyError) as error:
        raise StoreError(f"{path}: not the table of a live cell: {error}") from None
