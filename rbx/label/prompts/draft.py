"""What a source makes of one row: a prompt with what is known about it, or why the row is no prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rbx.grid.values import Row

# Stands in for the reference of a harmful prompt that has none.
REFUSAL = (
    "I can't help with this, because it could cause harm. If there is a safe and lawful aim behind your "
    "question, tell me about it, and I will gladly help you with that."
)


class Draft(NamedTuple):
    """A prompt in its final form, before it is counted, compared with others and drawn.

    ``source`` is what the grid calls its origin; None: the name of the source in the spec.
    """

    prompt: str
    source_id: str
    reference: str | None = None
    is_harmful: bool = False
    tests: str | None = None
    source: str | None = None


class Unfit(NamedTuple):
    """A sound row that the source's rule leaves out; ``rule`` says which, for the counts."""

    rule: str


Reader = Callable[[Row, int], Draft | Unfit]
"""From a row and its position in the source, from 0. Raises ``DatasetError`` for a malformed row."""


def text_or_blank(row: Row, column: str) -> str:
    """The text of a column that every row must have, if only an empty one."""
    row.require(column)
    return row.optional_text(column) or ""


def entries(row: Row, column: str) -> Iterator[Row]:
    """The objects in a list column, each as a row whose faults point at its file and line."""
    given: Any = row.require(column)
    if given is not None and not isinstance(given, list):
        raise row.fault(column, f"expected a list, found {type(given).__name__}")
    for number, entry in enumerate(given or ()):
        if not isinstance(entry, dict):
            raise row.fault(f"{column}[{number}]", f"expected an object, found {type(entry).__name__}")
        yield Row(row.path, row.number, entry)
