"""The body of a long prompt: paragraphs until a length drawn from a log-normal is reached."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

from rbx.grid.synth.template import Filling, Words

_BREAK = "\n\n"
_NORMAL = NormalDist()
_SMALLEST = 1e-9  # the normal quantile of 0 is no number


@dataclass(frozen=True)
class Body:
    """Paragraphs of sentences, each paragraph about words of its own.

    A paragraph opens with one of ``headings``, in which # stands for its number, and goes on with
    ``fewest`` to ``most`` of the ``sentences``, none of them twice. ``spread`` is that of the logarithm of
    the length, which is held between the shortest and the longest.
    """

    headings: tuple[str, ...]
    sentences: tuple[str, ...]
    fewest: int
    most: int
    median_characters: float
    spread: float
    shortest_characters: int
    longest_characters: int

    def render(self, lists: Words, uniform: Iterator[float]) -> str:
        """Paragraphs with an empty line between them, at most as long as drawn."""
        left = self._length(next(uniform))
        paragraphs: list[str] = []
        full = False
        while not full:
            text, full = self._paragraph(len(paragraphs) + 1, left, lists, uniform)
            if len(text) > left and paragraphs:
                break
            paragraphs.append(text)
            left -= len(text) + len(_BREAK)
        return _BREAK.join(paragraphs)

    def _length(self, uniform: float) -> int:
        quantile = _NORMAL.inv_cdf(min(max(uniform, _SMALLEST), 1 - _SMALLEST))
        drawn = self.median_characters * math.exp(self.spread * quantile)
        return int(min(max(drawn, self.shortest_characters), self.longest_characters))

    def _paragraph(
        self, number: int, most_characters: int, lists: Words, uniform: Iterator[float]
    ) -> tuple[str, bool]:
        """A heading and sentences while they fit, one at the least; and whether one did not fit."""
        filling = Filling(lists, uniform)
        heading = self.headings[int(next(uniform) * len(self.headings))]
        text = filling.fill(heading).replace("#", str(number))
        left = list(self.sentences)
        count = self.fewest + int(next(uniform) * (self.most - self.fewest + 1))
        for position in range(count):
            sentence = filling.fill(left.pop(int(next(uniform) * len(left))))
            longer = f"{text} {sentence[0].upper()}{sentence[1:]}"
            if len(longer) > most_characters and position:
                return text, True
            text = longer
        return text, False
