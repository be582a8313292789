"""The one protocol of a policy, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rbx.engine.telemetry import PoolTelemetry
from rbx.policy.pool_state import PoolState
from rbx.policy.request_table import RequestTable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NO_INSTANCE = -1


@dataclass(frozen=True)
class Assignment:
    """Where each of B requests goes; arrays (B,) in the order the requests were given.

    ``instance`` is ``NO_INSTANCE`` where no living instance can hold the prompt. ``max_tokens`` is
    the cap to dispatch with, after context length and budget. The predicted columns belong to the
    chosen instance; ``latency_s`` is NaN for policies that do not predict one.
    """

    instance: Ints
    max_tokens: Ints
    quality: Floats
    length_tokens: Floats
    latency_s: Floats


class Policy(Protocol):
    """Decides for one batch; knows no clock, no socket and no global random state."""

    @property
    def needs_predictions(self) -> bool:
        """Whether the prompt must be encoded before deciding."""
        ...

    def assign(
        self, requests: Ints, table: RequestTable, telemetry: PoolTelemetry, state: PoolState
    ) -> Assignment:
        """Assign rows ``requests`` of ``table`` in the order given and update ``state``."""
        ...
