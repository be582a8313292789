"""How long a scoring call takes in virtual time: constants, never this machine's clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.config.scoring_cost import ScoringCost

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ScoringTimes:
    """Seconds of a call, see ``rbx.config.scoring_cost.ScoringCost``; ``slowdown`` multiplies them all."""

    fixed_s: float
    per_request_s: float
    per_token_s: float
    max_tokens: int
    padded: bool = False
    slowdown: float = 1.0

    @classmethod
    def of(cls, cost: ScoringCost, workers: int) -> ScoringTimes:
        """Of one of so many workers."""
        slowdown = cost.worker_slowdown if workers > 1 else 1.0
        return cls(cost.fixed_s, cost.per_request_s, cost.per_token_s, cost.max_tokens, cost.padded, slowdown)

    def alone_s(self, prompt_tokens: Ints) -> NDArray[np.float64]:
        """A call for each of N prompts, (N,)."""
        read = np.minimum(prompt_tokens, self.max_tokens)
        cost_s = self.fixed_s + self.per_request_s + self.per_token_s * read
        return np.asarray(self.slowdown * cost_s, dtype=np.float64)

    def call_s(self, prompt_tokens: Ints) -> float:
        """One call for prompts of ``prompt_tokens`` (B,); without a prompt there is no call."""
        if not len(prompt_tokens):
            return 0.0
        read = np.minimum(prompt_tokens, self.max_tokens)
        tokens = int(read.max()) * len(read) if self.padded else int(read.sum())
        cost_s = self.fixed_s + self.per_request_s * len(read) + self.per_token_s * tokens
        return self.slowdown * cost_s
