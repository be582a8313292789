"""The mark beside latencies of policies that do not keep up with their arrivals, and its footnote."""

from __future__ import annotations

from dataclasses import replace

from rbx.report.keeping_up import OVERLOADED_MARK, OVERLOADED_WORDS
from rbx.report.point import Point
from rbx.report.table import Table, Value


def marked(value: Value, *points: Point | None) -> Value:
    """The value, flagged where it is known and rests on a point that does not keep up."""
    overloaded = any(point is not None and point.is_overloaded for point in points)
    known = value.sort is not None or value.mark
    return replace(value, flag=OVERLOADED_MARK) if overloaded and known else value


def with_footnote(table: Table) -> Table:
    """The table with the mark explained, where some value bears it."""
    if not any(value.flag for row in table.rows for value in row):
        return table
    return replace(table, footnote=f"{OVERLOADED_MARK} {OVERLOADED_WORDS}.")
