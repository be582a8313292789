"""Readers of published arrival traces, plain or gzipped.

* Azure LLM inference trace: CSV with ``TIMESTAMP,ContextTokens,GeneratedTokens``; stamps such as
  ``2023-11-16 18:15:46.6805900``.
* Mooncake trace: JSON lines with ``timestamp`` (ms), ``input_length``, ``output_length`` and
  ``hash_ids`` (ids of 512-token prefix blocks).
"""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from rbx.errors import DatasetError

AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
# Times and counts beyond this are no times and counts; they would overflow whole numbers later.
_LARGEST = 1e15
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class Trace:
    """N arrivals: seconds from the first one, nondecreasing, and token counts; each of shape (N,).

    ``prefix_blocks`` holds each request's block ids, or is empty where the format has none.
    """

    arrival_s: NDArray[np.float64]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    prefix_blocks: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class _Row:
    line: int
    stamp_s: float
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()


def read_trace(path: Path, format: Literal["azure", "mooncake"]) -> Trace:
    """Read a trace; raises ``DatasetError`` naming file and row for anything that can't be right.

    Refused: no rows, a missing or unreadable field, a negative or non-finite value, and stamps that
    go back in time.
    """
    rows = _azure_rows if format == "azure" else _mooncake_rows
    try:
        with _opened(path) as file:
            return _assemble(list(rows(file, path)), path)
    except FileNotFoundError:
        raise DatasetError(f"{path}: no such trace file") from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{path}: can't be read as a {format} trace: {error}") from None


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    """The file as text; gzip is told by its first bytes, not by its name."""
    with path.open("rb") as raw:
        magic = raw.read(2)
    opener: Any = gzip.open if magic == _GZIP_MAGIC else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
        yield file


def _azure_rows(file: IO[str], path: Path) -> Iterator[_Row]:
    reader = csv.DictReader(file)
    if reader.fieldnames is None:
        return
    missing = [column for column in AZURE_COLUMNS if column not in reader.fieldnames]
    if missing:
        raise DatasetError(
            f"{path}: row 1: no column {', '.join(missing)}; found {', '.join(reader.fieldnames)}"
        )
    origin: datetime | None = None
    for record in reader:
        where = f"{path}: row {reader.line_num}"
        day, fraction_s = _azure_stamp(record["TIMESTAMP"], where)
        origin = origin or day
        yield _Row(
            reader.line_num,
            (day - origin).total_seconds() + fraction_s,
            _count(record["ContextTokens"], where, "ContextTokens"),
            _count(record["GeneratedTokens"], where, "GeneratedTokens"),
        )


def _azure_stamp(text: str | None, where: str) -> tuple[datetime, float]:
    """Whole second and fraction apart: datetime holds six digits, these stamps have seven."""
    whole, _, digits = (text or "").strip().partition(".")
    try:
        if digits and not (digits.isascii() and digits.isdigit()):
            raise ValueError
        return datetime.strptime(whole, "%Y-%m-%d %H:%M:%S"), float(f"0.{digits or 0}")
    except ValueError:
        raise DatasetError(f"{where}, TIMESTAMP: {text!r} is not like 2023-11-16 18:15:46.6805900") from None


def _mooncake_rows(file: IO[str], path: Path) -> Iterator[_Row]:
    for line, text in enumerate(file, start=1):
        if not text.strip():
            continue
        where = f"{path}: row {line}"
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DatasetError(f"{where}: not valid JSON: {error}") from None
        if not isinstance(record, dict):
            raise DatasetError(f"{where}: expected an object")
        blocks = record.get("hash_ids", [])
        if not isinstance(blocks, list) or any(type(block) is not int for block in blocks):
            raise DatasetError(f"{where}, hash_ids: expected a list of whole numbers")
        yield _Row(
            line,
            _number(record.get("timestamp"), where, "timestamp") / 1000.0,
            _count(record.get("input_length"), where, "input_length"),
            _count(record.get("output_length"), where, "output_length"),
            tuple(blocks),
        )


def _number(value: Any, where: str, column: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number <= _LARGEST:
        shown = repr(value)[:60]
        raise DatasetError(
            f"{where}, {column}: {shown} is not a finite number of at least 0 and at most {_LARGEST:g}"
        )
    return number


def _count(value: Any, where: str, column: str) -> int:
    number = _number(value, where, column)
    if number != int(number):
        raise DatasetError(f"{where}, {column}: {value!r} is not a whole number")
    return int(number)


def _assemble(rows: list[_Row], path: Path) -> Trace:
    if not rows:
        raise DatasetError(f"{path}: the trace holds no arrivals")
    for before, row in itertools.pairwise(rows):
        if row.stamp_s < before.stamp_s:
            raise DatasetError(
                f"{path}: row {row.line}: the stamp lies {before.stamp_s - row.stamp_s:g} s before that of "
                f"row {before.line}; sort the trace by time"
            )
    has_blocks = any(row.blocks for row in rows)
    return Trace(
        arrival_s=np.array([row.stamp_s for row in rows]) - rows[0].stamp_s,
        input_tokens=np.array([row.input_tokens for row in rows], dtype=np.int64),
        output_tokens=np.array([row.output_tokens for row in rows], dtype=np.int64),
        prefix_blocks=tuple(row.blocks for row in rows) if has_blocks else (),
    )
