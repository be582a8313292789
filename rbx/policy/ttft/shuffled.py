"""A control: right predictions under wrong names. Whatever gain survives it did not come from them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.policy.pool_state import PoolState
from rbx.policy.ttft.estimator import TtftEstimator
from rbx.policy.view import PoolView, Served

Floats = NDArray[np.float64]


class Shuffled:
    """Permutes an estimator's answers at random among the candidates of each request."""

    def __init__(self, estimator: TtftEstimator, rng: np.random.Generator) -> None:
        """``rng`` drives the permutations and nothing else."""
        self.needs = estimator.needs
        self._estimator = estimator
        self._rng = rng

    def look(self, view: PoolView, state: PoolState) -> None:
        """See ``TtftEstimator.look``."""
        self._estimator.look(view, state)

    def ttft_s(
        self, input_tokens: int, candidates: NDArray[np.bool_], state: PoolState, within_s: float = np.inf
    ) -> Floats:
        """See ``TtftEstimator.ttft_s``."""
        seconds = self._estimator.ttft_s(input_tokens, candidates, state, within_s)
        seconds[candidates] = self._rng.permutation(seconds[candidates])
        return seconds

    def book(self, instance: int, input_tokens: int, max_tokens: int, length_tokens: float) -> None:
        """See ``TtftEstimator.book``."""
        self._estimator.book(instance, input_tokens, max_tokens, length_tokens)

    def learn(self, served: Served) -> None:
        """See ``TtftEstimator.learn``."""
        self._estimator.learn(served)
