"""Distinct prompts of some families, a pure function of a count and a generator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.errors import DatasetError
from rbx.grid.synth.family import N_TOPICS, Family

# Drawn at once for a prompt: more than a short one uses, a paragraph's worth of a long one.
UNIFORMS_AT_ONCE = 64
MAX_ROUNDS = 100


@dataclass(frozen=True)
class Drawn:
    """N prompts; ``family`` and ``topic`` (N,) index the families and each family's topics."""

    texts: list[str]
    is_harmful: NDArray[np.bool_]
    family: NDArray[np.int64]
    topic: NDArray[np.int64]

    @property
    def cell(self) -> NDArray[np.int64]:
        """One number for each (family, topic)."""
        return self.family * N_TOPICS + self.topic


def family_sizes(n: int, families: tuple[Family, ...]) -> list[int]:
    """Prompts per family, in the published proportions, by largest remainder."""
    weights = np.array([family.published for family in families], dtype=np.float64)
    exact = n * weights / weights.sum()
    sizes = np.floor(exact).astype(np.int64)
    order = np.argsort(-(exact - sizes), kind="stable")
    sizes[order[: n - int(sizes.sum())]] += 1
    return [int(size) for size in sizes]


def draw_prompts(n: int, families: tuple[Family, ...], generator: np.random.Generator) -> Drawn:
    """``n`` prompts of different texts, families mixed; raises ``DatasetError`` past what templates hold."""
    family = generator.permutation(np.repeat(np.arange(len(families)), family_sizes(n, families)))
    topic = generator.integers(0, N_TOPICS, n)
    lists = [each.topic_words() for each in families]
    texts, harmful = [""] * n, np.zeros(n, dtype=np.bool_)
    seen: set[str] = set()
    todo = list(range(n))
    for _ in range(MAX_ROUNDS):
        again = []
        for row in todo:
            words = lists[family[row]][topic[row]]
            text, is_harmful = families[family[row]].render(words, _uniforms(generator))
            if text in seen:
                again.append(row)
                continue
            seen.add(text)
            texts[row], harmful[row] = text, is_harmful
        if not again:
            return Drawn(texts, harmful, family, topic)
        todo = again
    raise DatasetError(f"the templates hold fewer than {n:,} different prompts; ask for fewer (source.n)")


def _uniforms(generator: np.random.Generator) -> Iterator[float]:
    while True:
        yield from generator.random(UNIFORMS_AT_ONCE).tolist()
