"""Historical latency: the lowest exponential average of the TTFTs an instance has shown."""

from __future__ import annotations

import numpy as np

from rbx.config.dispatch import EwmaLatency
from rbx.policy.ask import Ask
from rbx.policy.base import Needs
from rbx.policy.dispatchers.instance_score import Candidates, Floats
from rbx.policy.pool_state import PoolState
from rbx.policy.view import PoolView, Served


class PastTtft:
    """EWMA of TTFT; an instance without any comes first. Nothing of it knows the present load."""

    needs = Needs(served=True)

    def __init__(self, config: EwmaLatency, n_instances: int) -> None:
        """Nobody has answered yet."""
        self._weight = config.ewma_weight
        self._ttft_s = np.full(n_instances, -np.inf)

    def look(self, view: PoolView, state: PoolState) -> None:
        """The past says all."""

    def score(self, ask: Ask, candidates: Candidates, state: PoolState) -> Floats:
        """See ``InstanceScore.score``."""
        return self._ttft_s

    def book(self, ask: Ask, instance: int) -> None:
        """Nothing: only what came back counts."""

    def learn(self, served: Served) -> None:
        """In order of the ends of the answers."""
        for i, ttft_s in zip(served.instance.tolist(), served.ttft_s.tolist(), strict=True):
            known_s = self._ttft_s[i]
            self._ttft_s[i] = ttft_s if np.isinf(known_s) else known_s + self._weight * (ttft_s - known_s)
