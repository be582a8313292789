"""A table without the columns that tell nothing."""

from __future__ import annotations

from dataclasses import replace

from rbx.report.number import UNKNOWN
from rbx.report.table import Column, Table, Value


def telling(table: Table) -> Table:
    """The table without columns where nothing is known, and without optional ones that never vary."""
    kept = [
        index
        for index, column in enumerate(table.columns)
        if index == 0 or _tells(column, [row[index] for row in table.rows])
    ]
    if not table.rows or len(kept) == len(table.columns):
        return table
    rows = tuple(tuple(row[index] for index in kept) for row in table.rows)
    return replace(table, columns=tuple(table.columns[index] for index in kept), rows=rows)


def _tells(column: Column, values: list[Value]) -> bool:
    shown = {(value.text, value.sub) for value in values}
    if shown <= {(UNKNOWN, ""), ("", "")}:
        return False
    return not (column.is_optional and len(shown) == 1)
