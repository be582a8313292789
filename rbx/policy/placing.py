"""The answer to one batch while its requests are placed one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rbx.policy.ask import Ask
from rbx.policy.base import BY_POLICY, NO_INSTANCE, Assignment
from rbx.policy.candidates import book, cap_output
from rbx.policy.pool_state import PoolShape, PoolState


@dataclass
class Placing:
    """``answer`` is filled as requests are ``put``; ``sequence`` numbers the next of them."""

    answer: Assignment
    shape: PoolShape
    state: PoolState
    sequence: int

    @classmethod
    def of(cls, n: int, shape: PoolShape, state: PoolState, sequence: int) -> Placing:
        """Nobody placed yet, of ``n`` requests."""
        nobody = Assignment(
            instance=np.full(n, NO_INSTANCE),
            max_tokens=np.zeros(n, dtype=np.int64),
            quality=np.full(n, np.nan),
            length_tokens=np.zeros(n),
            latency_s=np.full(n, np.nan),
            ttft_s=np.full(n, np.nan),
            on_time=np.full(n, -1),
            mode=np.full(n, BY_POLICY),
        )
        return cls(nobody, shape, state, sequence)

    def put(self, ask: Ask, instance: int) -> None:
        """Send ``ask`` to ``instance`` and book it there."""
        answer, k = self.answer, ask.position
        length = float(ask.length_tokens[instance])
        answer.instance[k] = instance
        answer.quality[k] = ask.quality[instance]
        answer.length_tokens[k] = length
        answer.max_tokens[k] = cap_output(
            instance, ask.input_tokens, ask.max_tokens, ask.budget_usd, self.shape
        )
        book(instance, ask.input_tokens, length, self.sequence, self.shape, self.state)
        self.sequence += 1
