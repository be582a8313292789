"""Records of plain values as CSV, for machines and for spreadsheets that must not run what a text says."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rbx.report.plain_text import printable

# A spreadsheet takes a text that begins so for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def records_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a row, under the keys of the first; what is not known (None, NaN, infinity) is empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return out.getvalue()


def harmless(text: str) -> str:
    """``text`` without control characters, and with a mark before what would be a formula."""
    shown = printable(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return harmless(value) if isinstance(value, str) else value
