"""What a step trace must hold before a number is fitted to it: every fault names file, row and column."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rbx.errors import DatasetError

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

TIMES = ("start_s", "end_s")
# Whole numbers beyond this are not exact in a double; no step has that many tokens, squared or not.
_LARGEST = 2.0**53
_LARGEST_S = 1e12


def number_columns(path: Path, given: Mapping[str, Any]) -> dict[str, Floats]:
    """Arrow columns as doubles of one length; refuses text, nulls, NaN, infinity, negative, fractions.

    Times may be negative: a monotonic clock has no zero of its own.
    """
    rows = {name: len(column) for name, column in given.items()}
    if len(set(rows.values())) > 1:
        counts = ", ".join(f"{name} {count}" for name, count in rows.items())
        raise DatasetError(f"{path}: columns differ in length: {counts}")
    if not any(rows.values()):
        raise DatasetError(f"{path}: the step trace holds no rows")
    columns = {}
    for name, column in given.items():
        values = _numbers(path, name, column)
        _refuse(path, name, values, ~np.isfinite(values), "must be finite")
        if name in TIMES:
            beyond = np.abs(values) > _LARGEST_S
            _refuse(path, name, values, beyond, f"is no time in seconds; at most {_LARGEST_S:g} is")
        else:
            _refuse(path, name, values, values < 0, "can't be negative")
            whole = (values == np.floor(values)) & (values <= _LARGEST)
            _refuse(path, name, values, ~whole, f"must be a whole number of at most {_LARGEST:.0f}")
        columns[name] = values
    return columns


def _numbers(path: Path, name: str, column: Any) -> Floats:
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise DatasetError(
            f"{path}: row {row + 1}, {name}: empty; give a number in every row (null in every row of a "
            "column that may be unknown)"
        )
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        values: Floats = column.to_numpy(zero_copy_only=False).astype(np.float64)
        return values
    try:
        cells = column.to_pylist()
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: {name}: not UTF-8 ({error}); give numbers") from None
    values = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            # A truth value or a date is no count, whatever it converts to.
            values[row] = float(cell) if isinstance(cell, str) else np.nan
        except ValueError:
            values[row] = np.nan
        if np.isnan(values[row]):
            raise DatasetError(f"{path}: row {row + 1}, {name}: {str(cell)[:60]!r} is not a finite number")
    return values


def check_steps(path: Path, columns: Mapping[str, Floats]) -> None:
    """Refuse rows that no engine can have executed; ``columns`` come from ``number_columns``."""
    start_s, end_s = columns["start_s"], columns["end_s"]
    backwards = np.concatenate([[False], start_s[1:] < start_s[:-1]])
    _refuse(path, "start_s", start_s, backwards, "lies before that of the row above; sort by time, one clock")
    _refuse(path, "end_s", end_s, end_s <= start_s, "is not after start_s; a step takes time")
    stuck = np.concatenate([[False], end_s[1:] <= end_s[:-1]])
    _refuse(path, "end_s", end_s, stuck, "is not after that of the row above; steps end one after another")
    decodes, prefill = columns["decodes"], columns["prefill_tokens"]
    _refuse(path, "decodes", decodes, decodes + prefill == 0, "and prefill_tokens 0: a step has tokens")
    if "decode_context_tokens" in columns:
        context = columns["decode_context_tokens"]
        _refuse(path, "decode_context_tokens", context, (decodes == 0) & (context > 0), "but decodes is 0")
        squared, cross = columns["prefill_chunk_squared_tokens"], columns["prefill_cross_tokens"]
        outside = (squared < prefill) | (squared > prefill**2)
        what = "must lie between prefill_tokens and its square"
        _refuse(path, "prefill_chunk_squared_tokens", squared, outside, what)
        _refuse(path, "prefill_cross_tokens", cross, (prefill == 0) & (cross > 0), "but prefill_tokens is 0")
    if "prefill_requests" in columns:
        chunks = columns["prefill_requests"]
        odd = (chunks > prefill) | ((chunks == 0) & (prefill > 0))
        _refuse(path, "prefill_requests", chunks, odd, "does not go with prefill_tokens")


def _refuse(path: Path, name: str, values: Floats, faulty: Mask, what: str) -> None:
    rows = np.flatnonzero(faulty)
    if len(rows):
        raise DatasetError(f"{path}: row {rows[0] + 1}, {name}: {values[rows[0]]:.15g} {what}")
