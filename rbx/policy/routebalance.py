"""RouteBalance: model routing and load balancing fused into one online assignment."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rbx.config.policy import RouteBalancePolicy
from rbx.engine.telemetry import PoolTelemetry, tpot_features
from rbx.policy.base import Assignment, Ints
from rbx.policy.objective import assign_batch
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable

Floats = NDArray[np.float64]


class TpotPredictor(Protocol):
    """Seconds per output token of each instance, from what telemetry shows."""

    def predict(self, features: Floats, tier_of_instance: Ints) -> Floats:
        """Features (I, len(TPOT_FEATURES)) to seconds per token (I,)."""
        ...


class RouteBalance:
    """Algorithm 1 of arXiv 2606.17949 for one weight tuple.

    TPOT is predicted once a batch from the snapshot, as the algorithm does, or taken from the
    static prior (``latency: prior``).
    """

    def __init__(self, config: RouteBalancePolicy, shape: PoolShape, tpot: TpotPredictor) -> None:
        """Bind one weight tuple to a pool and its TPOT heads."""
        self.needs_predictions = True
        self._shape = shape
        self._tpot = tpot if config.latency == "xgboost" else None
        self._weights = np.array(config.weights)
        self._minmax = config.quality == "minmax"
        self._sequence = 0

    def assign(
        self, requests: Ints, table: RequestTable, telemetry: PoolTelemetry, state: PoolState
    ) -> Assignment:
        """See ``Policy.assign``."""
        instance, cap, length, latency_s = assign_batch(
            requests,
            table,
            self._shape,
            self._tpot_s(telemetry),
            self._weights,
            self._minmax,
            self._sequence,
            state,
        )
        self._sequence += len(requests)
        quality = np.where(instance >= 0, table.quality[requests, self._shape.model[instance]], np.nan)
        return Assignment(instance, cap, quality, length, latency_s)

    def _tpot_s(self, telemetry: PoolTelemetry) -> Floats:
        if self._tpot is None:
            return self._shape.tpot_prior_s
        return self._tpot.predict(tpot_features(telemetry), self._shape.tier)
