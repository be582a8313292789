"""The step trace: one row for each step that an instance executed, with its make-up and its times.

Whoever records steps writes it, whoever fits step times reads it. Parquet, or CSV with the same
column names (also gzipped); the order of the rows is the order of the steps. Rows are counted from 1.

=============================  =====================================================================
``start_s``, ``end_s``         monotonic clock in seconds; the step lasts for whoever waits in the
                               queue from the later of its start and the end of the step before it
``decodes``                    sequences that decode one token
``decode_context_tokens``      Σ of their tokens computed before the step
``prefill_tokens``             tokens of all prompt chunks
``prefill_chunk_squared_tokens``  Σ n², n the tokens of a chunk
``prefill_cross_tokens``       Σ n·c, c the tokens of its request computed before the step
``prefill_requests``           number of prompt chunks (may be absent or null)
=============================  =====================================================================

The three sums may be null in every row, or absent: the engine's own iteration log has none of them.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from rbx.engine.step_trace_checks import check_steps, number_columns
from rbx.errors import DatasetError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STEP_TRACE = pa.schema(
    [
        pa.field("start_s", pa.float64(), nullable=False),
        pa.field("end_s", pa.float64(), nullable=False),
        pa.field("decodes", pa.int64(), nullable=False),
        pa.field("decode_context_tokens", pa.int64()),
        pa.field("prefill_tokens", pa.int64(), nullable=False),
        pa.field("prefill_chunk_squared_tokens", pa.int64()),
        pa.field("prefill_cross_tokens", pa.int64()),
        pa.field("prefill_requests", pa.int64()),
    ]
)
CONTEXT_COLUMNS = ("decode_context_tokens", "prefill_chunk_squared_tokens", "prefill_cross_tokens")
OPTIONAL_COLUMNS = (*CONTEXT_COLUMNS, "prefill_requests")


@dataclass(frozen=True)
class StepContext:
    """What of a step's make-up only the scheduler sees; each column (N,)."""

    decode_context_tokens: Ints
    prefill_chunk_squared_tokens: Ints
    prefill_cross_tokens: Ints


@dataclass(frozen=True)
class StepTrace:
    """N steps of one instance, in order; each column has shape (N,).

    ``context`` is None where the recorder could not see it. ``metadata`` is what the recorder noted
    beside the rows, such as the engine's limits under ``engine``.
    """

    path: Path
    start_s: Floats
    end_s: Floats
    decodes: Ints
    prefill_tokens: Ints
    context: StepContext | None
    prefill_requests: Ints | None
    metadata: dict[str, Any]

    def __len__(self) -> int:
        """Number of steps."""
        return len(self.start_s)

    @property
    def interval_s(self) -> Floats:
        """Seconds that each step kept the queue waiting: its end − max(its start, the end before it)."""
        before = np.concatenate([self.start_s[:1], self.end_s[:-1]])
        seconds: Floats = self.end_s - np.maximum(self.start_s, before)
        return seconds


def write_step_trace(
    path: Path, columns: Mapping[str, ArrayLike | None], metadata: Mapping[str, Any]
) -> None:
    """Write one Parquet file whole or not at all; optional columns may be left out or None.

    ``metadata`` holds JSON values by name; ``engine`` is meant for the engine's limits. The rows are
    checked as on reading. Raises ``DatasetError`` naming the column and row that does not hold.
    """
    if path.suffix != ".parquet":
        raise DatasetError(f"{path}: a step trace is written as Parquet; name it .parquet")
    unknown = sorted(set(columns) - set(STEP_TRACE.names))
    if unknown:
        raise DatasetError(f"{path}: unknown column {', '.join(unknown)}; a trace has {_listed()}")
    given = {name: pa.array(np.asarray(values)) for name, values in columns.items() if values is not None}
    _checked(path, given)
    rows = len(next(iter(given.values())))
    arrays = [
        given[field.name].cast(field.type) if field.name in given else pa.nulls(rows, field.type)
        for field in STEP_TRACE
    ]
    notes = {name: json.dumps(value, sort_keys=True, allow_nan=False) for name, value in metadata.items()}
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        pq.write_table(pa.Table.from_arrays(arrays, schema=STEP_TRACE.with_metadata(notes)), temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def check_target(path: Path) -> None:
    """Make the folder of a trace to come; raises ``DatasetError`` if no file can be written there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise DatasetError(
            f"{path}: can't be written: {error.strerror or error}; choose another place"
        ) from None
    if path.is_dir():
        raise DatasetError(f"{path}: can't be written: a folder of that name is there; choose another name")


def read_step_trace(path: Path) -> StepTrace:
    """Read and check one file; raises ``DatasetError`` naming file, row and column.

    Refused: no rows, a column that is missing or given twice, a value that is no number, NaN, infinite
    or negative, clocks that go back, steps without length or tokens, and sums that contradict the counts.
    """
    table = _table(path)
    names = _names(path, table)
    given = {name: table.column(names.index(name)) for name in STEP_TRACE.names if name in names}
    # A column that is null throughout says the same as one that is absent.
    given = {name: column for name, column in given.items() if not _unknown(name, column)}
    columns = _checked(path, given)
    context = [columns[name].astype(np.int64) for name in CONTEXT_COLUMNS if name in columns]
    requests = columns.get("prefill_requests")
    return StepTrace(
        path=path,
        start_s=columns["start_s"],
        end_s=columns["end_s"],
        decodes=columns["decodes"].astype(np.int64),
        prefill_tokens=columns["prefill_tokens"].astype(np.int64),
        context=StepContext(*context) if context else None,
        prefill_requests=None if requests is None else requests.astype(np.int64),
        metadata=_metadata(table.schema.metadata),
    )


def _names(path: Path, table: pa.Table) -> list[str]:
    try:
        names: list[str] = table.column_names
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{path}: names of columns are not UTF-8 ({error}); save the file as UTF-8"
        ) from None
    twice = [name for name in STEP_TRACE.names if names.count(name) > 1]
    if twice:
        raise DatasetError(f"{path}: column {', '.join(twice)} given more than once; keep one of each")
    return names


def _unknown(name: str, column: pa.ChunkedArray) -> bool:
    return name in OPTIONAL_COLUMNS and len(column) > 0 and column.null_count == len(column)


def _checked(path: Path, given: Mapping[str, Any]) -> dict[str, Floats]:
    missing = [name for name in STEP_TRACE.names if name not in given and name not in OPTIONAL_COLUMNS]
    if missing:
        raise DatasetError(f"{path}: no column {', '.join(missing)}; a trace has {_listed()}")
    known = [name for name in CONTEXT_COLUMNS if name in given]
    if known and len(known) < len(CONTEXT_COLUMNS):
        lacks = [name for name in CONTEXT_COLUMNS if name not in given]
        raise DatasetError(
            f"{path}: {', '.join(lacks)} is absent or null throughout while {', '.join(known)} is not; "
            "record all three sums or none"
        )
    columns = number_columns(path, given)
    check_steps(path, columns)
    return columns


def _listed() -> str:
    return ", ".join(f"{name} (optional)" if name in OPTIONAL_COLUMNS else name for name in STEP_TRACE.names)


def _table(path: Path) -> pa.Table:
    name = path.name.lower()
    if not path.is_file():
        raise DatasetError(f"{path}: no such step trace")
    try:
        if name.endswith(".parquet"):
            # Not read_table: it can't read a file that names a column twice, and does not say which.
            with pq.ParquetFile(path) as file:
                return file.read()
        if name.endswith((".csv", ".csv.gz")):
            # As text: the reader's own numbers would come without the row of a fault.
            text = pa_csv.ConvertOptions(
                column_types=dict.fromkeys(STEP_TRACE.names, pa.string()),
                strings_can_be_null=True,
                null_values=["", "null"],
            )
            return pa_csv.read_csv(path, convert_options=text)
    # Names and notes of a damaged Parquet file come as text that is none.
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: can't be read as a step trace: {error}") from None
    raise DatasetError(f"{path}: unknown kind of file; a step trace is .parquet, .csv or .csv.gz")


def _metadata(raw: dict[bytes, bytes] | None) -> dict[str, Any]:
    """JSON values by name; a note that is not JSON (another tool's) is kept as text."""
    notes: dict[str, Any] = {}
    for key, value in sorted((raw or {}).items()):
        text = value.decode(errors="replace")
        try:
            notes[key.decode(errors="replace")] = json.loads(text)
        except (ValueError, RecursionError):
            notes[key.decode(errors="replace")] = text
    return notes
