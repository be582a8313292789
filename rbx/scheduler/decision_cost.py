"""How long a decision takes in virtual time: measured constants, never this machine's clock.

One batch costs ``fixed + per_request·B`` for scoring, after the encoder's ``encode_per_request·B +
encode_per_token·Σ min(tokens, encode_max_tokens)`` where the policy reads the prompt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rbx.scheduler.scoring_times import ScoringTimes

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class DecisionTimes:
    """Seconds per batch, request and prompt token; ``router`` takes the encoder's place where it is given."""

    fixed_s: float
    per_request_s: float
    encode_s_per_request: float
    encode_s_per_token: float
    encode_max_tokens: int
    router: ScoringTimes | None = None

    @property
    def scoring(self) -> ScoringTimes:
        """What reading prompts costs, the router's or the encoder's."""
        encoder = ScoringTimes(
            0.0, self.encode_s_per_request, self.encode_s_per_token, self.encode_max_tokens
        )
        return self.router or encoder

    @property
    def scored_before(self) -> DecisionTimes:
        """Of a loop whose prompts were read before they came to it."""
        return replace(self, router=ScoringTimes(0.0, 0.0, 0.0, 1))

    def encode_s(self, prompt_tokens: Ints) -> float:
        """Reading a batch of prompts with ``prompt_tokens`` (B,) tokens each."""
        return self.scoring.call_s(prompt_tokens)

    def fastest_per_s(self, prompt_tokens: Ints, largest_batch: int) -> float:
        """Requests per second that the serial decision loop can take, in full batches of such prompts."""
        per_request_s = self.encode_s(prompt_tokens) / len(prompt_tokens) + self.per_request_s
        return 1.0 / (per_request_s + self.fixed_s / largest_batch)

    def score_s(self, n_requests: int) -> float:
        """KNN, heads and Eq. 1 for a batch."""
        return self.fixed_s + self.per_request_s * n_requests
