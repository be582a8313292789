"""A table as data: what the page and the terminal both show."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rbx.report.interval import Interval
from rbx.report.number import signed, span

Tone = Literal["", "good", "bad", "mute"]
Write = Callable[[float], str]


@dataclass(frozen=True)
class Value:
    """One table cell: main text, a smaller second line, what to sort by, and a hint on hover.

    NaN and infinity are nothing to sort by.
    """

    text: str
    sub: str = ""
    sort: float | None = None
    hint: str = ""
    tone: Tone = ""
    mark: str = ""  # colour family of a policy's name
    flag: str = ""  # a sign that the table's footnote explains

    def __post_init__(self) -> None:
        """Forget what can't be sorted by."""
        if self.sort is not None and not math.isfinite(self.sort):
            object.__setattr__(self, "sort", None)


@dataclass(frozen=True)
class Column:
    """``hint`` gives population and formula in a few words; numbers are set to the right.

    An optional one is left out where it is the same in every row.
    """

    title: str
    hint: str = ""
    numeric: bool = True
    is_optional: bool = False


@dataclass(frozen=True)
class Table:
    """``caption`` names it; ``note`` tells the population its numbers are taken over.

    ``footnote`` explains the flags of its values, and is empty where there are none.
    """

    caption: str
    note: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    footnote: str = ""


def number(value: float, write: Write) -> Value:
    """A bare figure."""
    return Value(write(value), sort=value)


def count(value: int, *, alarming: bool = False) -> Value:
    """A count; an alarming one that is not zero stands out."""
    return Value(f"{value:,}", sort=float(value), tone="bad" if alarming and value else "")


def estimate(interval: Interval, write: Write) -> Value:
    """A figure over its interval."""
    return Value(
        write(interval.value),
        sub=span(interval, write),
        sort=interval.value,
        hint=interval.reason,
    )


def change(interval: Interval | None, write: Write, *, lower_is_better: bool) -> Value:
    """A signed difference; coloured only where its interval excludes zero."""
    if interval is None:
        return Value("baseline", tone="mute")
    better = (interval.value < 0) == lower_is_better
    tone: Tone = ("good" if better else "bad") if interval.excludes_zero else ""
    return Value(
        signed(write(interval.value)),
        sub=span(interval, lambda bound: signed(write(bound))),
        sort=interval.value,
        hint=interval.reason,
        tone=tone,
    )
