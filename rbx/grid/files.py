"""Source files as rows: JSON lines, CSV and Parquet, gzip or not, with faults that name the place."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from rbx.errors import DatasetError
from rbx.grid.values import Row

BATCH_ROWS = 4096
# The csv module's default of 128 KiB is shorter than a long answer.
MAX_CSV_CELL = 1 << 27


def file_format(path: Path) -> str:
    """``jsonl``, ``csv`` or ``parquet`` by the name; raises ``DatasetError`` for any other."""
    name = path.name.lower().removesuffix(".gz")
    for ending, kind in ((".jsonl", "jsonl"), (".ndjson", "jsonl"), (".csv", "csv"), (".parquet", "parquet")):
        if name.endswith(ending):
            return kind
    raise DatasetError(f"{path}: unknown kind of file; expected .jsonl, .csv (also .gz) or .parquet")


def read_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """Every row of a file; raises ``DatasetError`` where it can't be read.

    ``columns`` are those that will be looked at: of Parquet no others are read.
    """
    kind = file_format(path)
    if not path.is_file():
        raise DatasetError(f"{path}: no such file")
    if kind == "parquet":
        return _parquet(path, columns)
    return _jsonl(path) if kind == "jsonl" else _csv(path)


def sha256_of(path: Path) -> str:
    """Digest of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def _reading(path: Path) -> Iterator[IO[bytes]]:
    try:
        with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb") as file:
            yield file  # type: ignore[misc]  # a GzipFile reads as a binary file does
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DatasetError(f"{path}: truncated or damaged gzip: {error}; fetch the file again") from None
    except OSError as error:
        raise DatasetError(f"{path}: can't be read: {error.strerror or error}") from None


def _jsonl(path: Path) -> Iterator[Row]:
    with _reading(path) as file:
        for number, raw in enumerate(file, start=1):
            line = _decoded(path, number, raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw)
            if line.strip():
                yield Row(path, number, _json_object(path, number, line))


def _decoded(path: Path, number: int, raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise DatasetError(
            f"{path}, row {number}: not valid UTF-8 at byte {error.start}; save the file as UTF-8"
        ) from None


def _json_object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}, row {number}: not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise DatasetError(f"{path}, row {number}: expected a JSON object, found {type(value).__name__}")
    return value


def _csv(path: Path) -> Iterator[Row]:
    csv.field_size_limit(MAX_CSV_CELL)
    with _reading(path) as file:
        lines = csv.reader(_decoded_lines(path, file), strict=True)
        try:
            header = next(lines, None)
            if header is None:
                raise DatasetError(f"{path}: empty; expected a header line")
            _check_header(path, header)
            for number, cells in enumerate(lines, start=1):
                if not cells:
                    continue
                if len(cells) != len(header):
                    raise DatasetError(
                        f"{path}, row {number}: {len(cells)} cells, but the header names {len(header)}"
                    )
                yield Row(
                    path, number, {name: cell or None for name, cell in zip(header, cells, strict=True)}
                )
        except csv.Error as error:
            raise DatasetError(f"{path}, line {lines.line_num}: not valid CSV: {error}") from None


def _decoded_lines(path: Path, file: IO[bytes]) -> Iterator[str]:
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        yield from text
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: not valid UTF-8 ({error}); save the file as UTF-8") from None


def _check_header(path: Path, header: list[str]) -> None:
    for name in header:
        if header.count(name) > 1:
            raise DatasetError(f"{path}: the header names column {name!r} twice")


def _parquet(path: Path, columns: Sequence[str] | None) -> Iterator[Row]:
    try:
        number = 0
        for batch in pq.ParquetFile(path).iter_batches(BATCH_ROWS, columns=columns):
            for values in batch.to_pylist():
                number += 1
                yield Row(path, number, values)
    except (pa.ArrowException, OSError) as error:
        raise DatasetError(f"{path}: not a readable Parquet file: {error}") from None
