"""What a request is worth that comes in time, and what one that does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rbx.report.requests import Bools, Floats, Requests


@dataclass(frozen=True)
class OnTimeRule:
    """U = quality − w·cost, w being ``cost_weight_per_usd`` (λ in the paper); 0 if late, failed or shed."""

    cost_weight_per_usd: float

    def on_time_utility(self, requests: Requests) -> Floats:
        """U·1{TTFT ≤ τ} of each request, shape (N,); NaN where one came in time and has no score."""
        return self._gated(requests, requests.on_time)

    def ungated_utility(self, requests: Requests) -> Floats:
        """The same if every completed request had come in time, shape (N,)."""
        return self._gated(requests, requests.ok)

    def _gated(self, requests: Requests, counts: Bools) -> Floats:
        utility = requests.quality - self.cost_weight_per_usd * requests.cost_usd
        return np.where(counts, utility, 0.0)
