"""Least work left: seconds that the tokens in line would take at the instance's own throughputs."""

from __future__ import annotations

import numpy as np

from rbx.config.dispatch import LeastWork
from rbx.policy.ask import Ask
from rbx.policy.base import Needs
from rbx.policy.dispatchers.instance_score import Candidates, Floats, OfTheState
from rbx.policy.pool_state import PoolState
from rbx.policy.speeds import Speeds


class BacklogSeconds(OfTheState):
    """prefill backlog ÷ θ + w · decode backlog ÷ φ; the decode backlog is of predicted lengths."""

    needs = Needs(predictions=True)

    def __init__(self, config: LeastWork, speeds: Speeds) -> None:
        """``speeds`` gives θ and φ of each instance."""
        self._decode_weight = config.decode_weight
        self._speeds = speeds

    def score(self, ask: Ask, candidates: Candidates, state: PoolState) -> Floats:
        """See ``InstanceScore.score``."""
        prefill_s, decode_s = self._speeds.backlog_s(state)
        return np.asarray(prefill_s + self._decode_weight * decode_s)
