"""LMDeploy's proxy server, strategy ``min_expected_latency``: requests under way for the speed."""

from __future__ import annotations

import numpy as np

from rbx.config.dispatch import LmDeploy
from rbx.policy.ask import Ask
from rbx.policy.base import Needs
from rbx.policy.dispatchers.instance_score import Candidates, Floats
from rbx.policy.pool_state import PoolState
from rbx.policy.view import PoolView, Served


class UnfinishedForSpeed:
    """N ÷ speed^power, N from forwarding to completion as the router counts them; ties at random."""

    needs = Needs(served=True)

    def __init__(self, config: LmDeploy, requests_per_s: Floats, rng: np.random.Generator) -> None:
        """``requests_per_s`` (I,) are the speeds; ``rng`` breaks ties and nothing else."""
        self._speed = requests_per_s**config.speed_power
        self._unfinished = np.zeros(len(requests_per_s), dtype=np.int64)
        self._rng = rng

    def look(self, view: PoolView, state: PoolState) -> None:
        """The counts are the router's own."""

    def score(self, ask: Ask, candidates: Candidates, state: PoolState) -> Floats:
        """See ``InstanceScore.score``; one of the best, drawn at random, stands alone in front."""
        load = self._unfinished / self._speed
        best = np.flatnonzero(candidates & (load == load[candidates].min()))
        load[self._rng.choice(best)] = -np.inf
        return np.asarray(load)

    def book(self, ask: Ask, instance: int) -> None:
        """One more under way."""
        self._unfinished[instance] += 1

    def learn(self, served: Served) -> None:
        """As many fewer as have ended."""
        np.subtract.at(self._unfinished, served.instance, 1)
