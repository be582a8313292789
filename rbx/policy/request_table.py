"""Requests as a policy sees them: the oracle boundary.

``RequestTable`` has no field for a true output length or a label, so no policy can read one; what a
policy knows of the answer is what the heads predicted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbx.errors import ConfigError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


NO_ROUTER: Floats = np.zeros((0, 0))


class RequestTable(NamedTuple):
    """Columns of N requests; M models in the order of the pool. A tuple, so that kernels take it whole.

    ``input_tokens``, ``max_tokens`` (N,); ``budget_usd`` and ``ttft_target_s``, from arrival (N,), infinite
    where there is none; ``quality`` and ``length_tokens`` (N, M): predictions. Predicted lengths are at
    least one token. ``router_score`` (N, M): what a trained router says, the higher the better; nothing
    (0, 0) for policies that ask none.
    """

    input_tokens: Ints
    max_tokens: Ints
    budget_usd: Floats
    quality: Floats
    length_tokens: Floats
    ttft_target_s: Floats
    router_score: Floats = NO_ROUTER

    def checked(self) -> RequestTable:
        """Itself; raises ``ConfigError`` on what would poison every later decision."""
        for name in ("quality", "length_tokens", "router_score"):
            if not np.isfinite(getattr(self, name)).all():
                raise ConfigError(f"request table: {name} holds NaN or infinity")
        if (self.length_tokens < 1).any():
            raise ConfigError("request table: a predicted length lies below one token")
        if (self.input_tokens < 1).any() or (self.max_tokens < 1).any():
            raise ConfigError("request table: input_tokens or max_tokens below 1")
        if np.isnan(self.budget_usd).any():
            raise ConfigError("request table: a budget is NaN; no budget is infinity")
        if not (self.ttft_target_s > 0).all():
            raise ConfigError("request table: a TTFT target is not above 0; no target is infinity")
        return self
