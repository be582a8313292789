"""Drawing prompts by a seed so that a draw depends on their texts alone, not on their order or number."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from rbx.label.answer import Question


class Ranked(NamedTuple):
    """A question and its place in the draw."""

    rank: str
    question: Question


def rank(seed: int, source: str, prompt_id: str) -> str:
    """A prompt's place among all of its source: uniform, and known from the prompt alone."""
    return hashlib.sha256(f"{seed}\0{source}\0{prompt_id}".encode()).hexdigest()[:32]


class Draw:
    """The questions of lowest rank among all that are added.

    A larger draw holds a smaller one, whatever the order of adding. ``limit`` is the most that will ever be
    taken, which bounds the memory; None keeps all.
    """

    def __init__(self, seed: int, source: str, limit: int | None) -> None:
        """Nothing added yet."""
        self.available = 0
        self._seed, self._source, self._limit = seed, source, limit
        self._kept: list[Ranked] = []

    def add(self, question: Question) -> None:
        """One more to draw from; its id must be new."""
        self.available += 1
        self._kept.append(Ranked(rank(self._seed, self._source, question.prompt_id), question))
        if self._limit is not None and len(self._kept) >= 2 * self._limit:
            self._kept = self._lowest(self._limit)

    def take(self, n: int) -> list[Ranked]:
        """The first ``n`` of the draw, at most ``limit``, in its order."""
        return self._lowest(n)

    def _lowest(self, n: int) -> list[Ranked]:
        return sorted(self._kept, key=lambda each: each.rank)[:n]
