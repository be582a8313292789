"""TTFT from one prefill throughput: the simple estimator that BEA is compared with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.policy.base import Needs
from rbx.policy.pool_state import PoolState
from rbx.policy.view import PoolView, Served

Floats = NDArray[np.float64]


class PrefillThroughput:
    """(prefill backlog + prompt) ÷ θ_i: blind to seats, to the cache and to the decodes beside it."""

    def __init__(self, prefill_tokens_per_s: Floats) -> None:
        """θ of each instance (I,), tokens per second."""
        self.needs = Needs()
        self._tokens_per_s = prefill_tokens_per_s

    def look(self, view: PoolView, state: PoolState) -> None:
        """See ``TtftEstimator.look``; the state says all."""

    def ttft_s(
        self, input_tokens: int, candidates: NDArray[np.bool_], state: PoolState, within_s: float = np.inf
    ) -> Floats:
        """See ``TtftEstimator.ttft_s``."""
        return np.asarray((state.pending_prefill_tokens + input_tokens) / self._tokens_per_s)

    def book(self, instance: int, input_tokens: int, max_tokens: int, length_tokens: float) -> None:
        """Nothing: the state is kept by the policy."""

    def learn(self, served: Served) -> None:
        """Nothing: θ is fixed."""
