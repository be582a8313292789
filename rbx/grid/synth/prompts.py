"""Distinct prompts of the seven families, a pure function of a count and a generator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.errors import DatasetError
from rbx.grid.synth.families import FAMILIES, N_TOPICS
from rbx.grid.synth.family import Family

# More than any prompt uses: one number for each slot, detail and question.
UNIFORMS_PER_PROMPT = 64
MAX_ROUNDS = 100


@dataclass(frozen=True)
class Drawn:
    """N prompts; ``family`` and ``topic`` (N,) index ``FAMILIES`` and each family's topics."""

    texts: list[str]
    is_harmful: NDArray[np.bool_]
    family: NDArray[np.int64]
    topic: NDArray[np.int64]

    @property
    def cell(self) -> NDArray[np.int64]:
        """One number for each (family, topic)."""
        return self.family * N_TOPICS + self.topic


def family_sizes(n: int) -> list[int]:
    """Prompts per family, in the published proportions, by largest remainder."""
    weights = np.array([family.published for family in FAMILIES], dtype=np.float64)
    exact = n * weights / weights.sum()
    sizes = np.floor(exact).astype(np.int64)
    order = np.argsort(-(exact - sizes), kind="stable")
    sizes[order[: n - int(sizes.sum())]] += 1
    return [int(size) for size in sizes]


def draw_prompts(n: int, generator: np.random.Generator) -> Drawn:
    """``n`` prompts of different texts, families mixed; raises ``DatasetError`` past what templates hold."""
    family = generator.permutation(np.repeat(np.arange(len(FAMILIES)), family_sizes(n)))
    topic = generator.integers(0, N_TOPICS, n)
    lists = [each.topic_words() for each in FAMILIES]
    texts, harmful = [""] * n, np.zeros(n, dtype=np.bool_)
    seen: set[str] = set()
    todo = np.arange(n)
    for _ in range(MAX_ROUNDS):
        uniforms = generator.random((len(todo), UNIFORMS_PER_PROMPT))
        again = []
        for row, numbers in zip(todo.tolist(), uniforms.tolist(), strict=True):
            kind: Family = FAMILIES[family[row]]
            text, is_harmful = kind.render(lists[family[row]][topic[row]], iter(numbers))
            if text in seen:
                again.append(row)
                continue
            seen.add(text)
            texts[row], harmful[row] = text, is_harmful
        if not again:
            return Drawn(texts, harmful, family, topic)
        todo = np.array(again)
    raise DatasetError(f"the templates hold fewer than {n:,} different prompts; ask for fewer (source.n)")
