"""How many tokens each request will give in all, as far as anyone can tell."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rbx.compiled import bare_njit
from rbx.engine import snapshot_columns as snap
from rbx.engine.whole_number import check_whole
from rbx.heads.bea.survival import SurvivalTable

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class LengthRule:
    """Survivors' median; else max(predicted + reserve, generated + 1); else half the cap.

    ``survival`` belongs to the instance's model. With ``trust_predictions`` the survivors are asked only
    about requests without a prediction that still lies ahead of what they have generated. Every guess
    lies above what is generated and within the cap. Raises ``EngineError`` for a reserve
    that is no whole number from 0 up.
    """

    survival: SurvivalTable | None = None
    reserve_tokens: int = 0
    trust_predictions: bool = False

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        check_whole(self, reserve_tokens=0)

    @cached_property
    def tables(self) -> tuple[Ints, Ints]:
        """Edges and medians of the survival table; a table without columns stands for none."""
        if self.survival is None:
            return np.zeros(0, dtype=np.int64), np.zeros((1, 0), dtype=np.int64)
        return self.survival.edges, self.survival.medians


def whole_tokens(length_tokens: ArrayLike) -> Ints:
    """Predicted lengths as engines and snapshots take them: whole numbers of at least 1."""
    return np.maximum(np.rint(length_tokens), 1).astype(np.int64)


@bare_njit
def total_tokens(
    row: Ints, edges: Ints, medians: Ints, reserve_tokens: int, trust_predictions: bool
) -> tuple[int, bool]:
    """Guessed output in all of one row of a snapshot's requests, and whether half the cap had to do."""
    generated, cap = row[snap.GENERATED], row[snap.CAP]
    predicted = row[snap.PREDICTED] + reserve_tokens if row[snap.PREDICTED] > 0 else 0
    guess, unknown = 0, False
    if generated < medians.shape[1] and not (trust_predictions and predicted > generated):
        b = 0
        while b < len(edges) and row[snap.PROMPT] > edges[b]:
            b += 1
        guess = medians[b, generated]
    if guess == 0:
        unknown = predicted == 0
        guess = cap // 2 if unknown else predicted
    return min(max(guess, generated + 1), cap), unknown
