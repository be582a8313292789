"""Power of d choices: the shortest queue among d candidates drawn at random (Mitzenmacher, 2001)."""

from __future__ import annotations

import numpy as np

from rbx.config.dispatch import PowerOfD
from rbx.policy.ask import Ask
from rbx.policy.dispatchers.instance_score import Candidates, Floats, OfTheState
from rbx.policy.pool_state import PoolState


class FewQueues(OfTheState):
    """Queue of the drawn candidates, infinity elsewhere."""

    def __init__(self, config: PowerOfD, rng: np.random.Generator) -> None:
        """``rng`` draws the candidates and nothing else."""
        self._d = config.d
        self._rng = rng

    def score(self, ask: Ask, candidates: Candidates, state: PoolState) -> Floats:
        """See ``InstanceScore.score``; the draw is without replacement."""
        among = np.flatnonzero(candidates)
        drawn = self._rng.permutation(among)[: self._d]
        queue = np.full(len(candidates), np.inf)
        queue[drawn] = state.running[drawn] + state.waiting[drawn]
        return queue
