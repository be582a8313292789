"""The marks beside latencies of policies that do not keep up, or may not, and their footnote."""

from __future__ import annotations

from dataclasses import replace

from rbx.report.keeping_up import OVERLOADED_MARK, OVERLOADED_WORDS, UNTOLD_MARK, UNTOLD_WORDS
from rbx.report.point import Point
from rbx.report.table import Table, Value

_WORDS = {OVERLOADED_MARK: OVERLOADED_WORDS, UNTOLD_MARK: UNTOLD_WORDS}


def marked(value: Value, *points: Point | None) -> Value:
    """The value, flagged where it is known and rests on a point that does not keep up, or may not."""
    known = value.sort is not None or value.mark
    flag = _flag([point.keeps_up for point in points if point is not None])
    return replace(value, flag=flag) if flag and known else value


def with_footnote(table: Table) -> Table:
    """The table with its marks explained, where some value bears one."""
    flags = {value.flag for row in table.rows for value in row}
    words = [f"{mark} {words}." for mark, words in _WORDS.items() if mark in flags]
    return replace(table, footnote=" ".join(words)) if words else table


def _flag(keeps_up: list[bool | None]) -> str:
    if False in keeps_up:
        return OVERLOADED_MARK
    return UNTOLD_MARK if None in keeps_up else ""
