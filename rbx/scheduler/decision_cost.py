"""How long a decision takes in virtual time: measured constants, never this machine's clock.

One batch costs ``fixed + per_request·B`` for scoring, after the encoder's
``encode_per_request·B + encode_per_token·Σ tokens`` where the policy reads the prompt.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DecisionTimes:
    """Seconds per batch, request and prompt token."""

    fixed_s: float
    per_request_s: float
    encode_s_per_request: float
    encode_s_per_token: float

    def encode_s(self, n_requests: int, n_tokens: int) -> float:
        """Encoding a batch of ``n_requests`` prompts with ``n_tokens`` tokens in all."""
        return self.encode_s_per_request * n_requests + self.encode_s_per_token * n_tokens

    def score_s(self, n_requests: int) -> float:
        """KNN, heads and Eq. 1 for a batch."""
        return self.fixed_s + self.per_request_s * n_requests
