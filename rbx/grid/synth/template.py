"""Prompt templates: text with slots, filled from uniform numbers alone.

A slot in braces is a word list (``{thing}``), another word of the same list (``{thing2}``), or a whole
number in a range (``{a:3-90}``, later again as ``{a}``). Within one prompt a slot keeps its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

Words = Mapping[str, tuple[str, ...]]

_SLOT = re.compile(r"\{([a-z]+)(\d?)(?::(\d+)-(\d+))?\}")


def words(text: str) -> tuple[str, ...]:
    """A word list written as ``one|two words|three``."""
    return tuple(text.split("|"))


@dataclass(frozen=True)
class _Slot:
    name: str
    rank: int  # 0 for {thing}, 2 for {thing2}
    bounds: tuple[int, int] | None


@lru_cache(maxsize=4096)
def _pieces(template: str) -> tuple[str | _Slot, ...]:
    pieces: list[str | _Slot] = []
    end = 0
    for match in _SLOT.finditer(template):
        name, rank, low, high = match.groups()
        pieces.append(template[end : match.start()])
        pieces.append(_Slot(name, int(rank or 0), (int(low), int(high)) if low else None))
        end = match.end()
    pieces.append(template[end:])
    return tuple(pieces)


class Filling:
    """Fills the slots of one prompt's templates from a stream of uniform numbers in [0, 1)."""

    def __init__(self, lists: Words, uniform: Iterator[float]) -> None:
        """Take the word lists and the numbers; each new slot uses one number."""
        self._lists = lists
        self._uniform = uniform
        self._index: dict[str, int] = {}
        self._value: dict[tuple[str, int], str] = {}

    def fill(self, template: str) -> str:
        """The template with every slot replaced."""
        return "".join(
            piece if isinstance(piece, str) else self._filled(piece) for piece in _pieces(template)
        )

    def _filled(self, slot: _Slot) -> str:
        key = (slot.name, slot.rank)
        if key not in self._value:
            self._value[key] = self._number(slot.bounds) if slot.bounds else self._word(slot)
        return self._value[key]

    def _number(self, bounds: tuple[int, int]) -> str:
        low, high = bounds
        return str(low + int(next(self._uniform) * (high - low + 1)))

    def _word(self, slot: _Slot) -> str:
        choices = self._lists[slot.name]
        if slot.name not in self._index:
            self._index[slot.name] = int(next(self._uniform) * len(choices))
        first = self._index[slot.name]
        if slot.rank == 0:
            return choices[first]
        # Any word but the first one, so that "{thing} or {thing2}" is a choice.
        step = 1 + int(next(self._uniform) * (len(choices) - 1))
        return choices[(first + step) % len(choices)]
