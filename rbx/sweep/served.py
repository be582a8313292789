"""What a live sweep's requests were answered with, and the scores of those answers.

::

    served/CELL.parquet     one row a request that was answered (``SERVED``)
    served/labels.parquet   one row a (cell, request, metric) (``SERVED_LABELS``)

A simulated sweep has neither: its answers are the grid's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rbx.durable import write_table
from rbx.errors import StoreError

FOLDER = "served"
LABELS_FILE = "labels.parquet"

SERVED = pa.schema(
    [
        pa.field("request", pa.int32(), nullable=False),  # position in the workload
        pa.field("prompt_id", pa.string(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("response", pa.string()),  # null where the text was not kept
        pa.field("output_tokens", pa.int32()),
        pa.field("finish_reason", pa.string()),  # stop | length | null when unknown
    ]
)

SERVED_LABELS = pa.schema(
    [
        pa.field("cell_id", pa.string(), nullable=False),
        pa.field("request", pa.int32(), nullable=False),
        pa.field("prompt_id", pa.string(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("score", pa.float64()),  # in [0, 1] or null
        pa.field("status", pa.string(), nullable=False),  # ok | missing | judge_failed
        pa.field("reason", pa.string()),
        pa.field("judge_digest", pa.string(), nullable=False),
        pa.field("raw", pa.string()),
        pa.field("cut", pa.string()),
    ]
)


def write_served(sweep: Path, cell_id: str, rows: pa.Table) -> None:
    """Keep the answers of one cell."""
    (sweep / FOLDER).mkdir(parents=True, exist_ok=True)
    write_table(rows.cast(SERVED), sweep / FOLDER / f"{cell_id}.parquet")


def read_served(sweep: Path) -> Iterator[tuple[str, pa.Table]]:
    """Cell id and answers of each cell, in the order of the ids.

    Raises ``StoreError`` where the sweep kept none, or a file is no such table.
    """
    paths = sorted(path for path in (sweep / FOLDER).glob("*.parquet") if path.name != LABELS_FILE)
    if not paths:
        raise StoreError(
            f"{sweep}: holds no served text ({FOLDER}/CELL.parquet); only a live sweep that keeps its "
            "answers has some. A simulated sweep is scored by its grid: rbx dataset judge GRID"
        )
    for path in paths:
        yield path.stem, _read(path)


def read_served_cell(sweep: Path, cell_id: str) -> pa.Table:
    """Answers of one cell, none where it kept none; raises ``StoreError`` for another kind of file."""
    path = sweep / FOLDER / f"{cell_id}.parquet"
    return _read(path) if path.exists() else SERVED.empty_table()


def _read(path: Path) -> pa.Table:
    try:
        return pq.read_table(path).select(SERVED.names).cast(SERVED)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise StoreError(f"{path}: not a table of served answers: {error}") from None
