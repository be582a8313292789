"""RouteBalance: model routing and load balancing fused into one online assignment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rbx.config.policy import RouteBalancePolicy
from rbx.engine.telemetry import PoolTelemetry, tpot_features
from rbx.policy.base import NO_INSTANCE, Assignment, Ints, Needs
from rbx.policy.candidates import possible
from rbx.policy.matching import match_batch
from rbx.policy.objective import assign_batch
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.ttft.estimator import TtftEstimator
from rbx.policy.view import PoolView, Served

Floats = NDArray[np.float64]


class TpotPredictor(Protocol):
    """Seconds per output token of each instance, from what telemetry shows."""

    def predict(self, features: Floats, tier_of_instance: Ints) -> Floats:
        """Features (I, len(TPOT_FEATURES)) to seconds per token (I,)."""
        ...


class RouteBalance:
    """Algorithm 1 of arXiv 2606.17949 for one weight tuple.

    TPOT is predicted once a batch from the snapshot, as the algorithm does. With a TTFT estimator
    (``latency: bea``) the time before the first token comes from it, for each request in turn, in the place
    of d/b decode steps. With ``latency: prior`` T is the tier's static time per token times L, whatever
    telemetry says: the paper's arm 4 (Table 7).
    """

    def __init__(
        self,
        config: RouteBalancePolicy,
        shape: PoolShape,
        tpot: TpotPredictor,
        ttft: TtftEstimator | None = None,
    ) -> None:
        """Bind one weight tuple to a pool, its TPOT heads and, for ``latency: bea``, an estimator."""
        self.needs = Needs(predictions=True, snapshots=ttft is not None and ttft.needs.snapshots)
        self._shape = shape
        self._tpot = None if config.latency == "prior" else tpot
        self._ttft = ttft
        self.weights = np.array(config.weights)  # (quality, latency, cost); may change between batches
        self._minmax = config.quality == "minmax"
        self._ties_by_latency = config.tie_break == "latency"
        self._matching = config.placement == "matching"
        self._sequence = 0
        # Empty: d/b decode steps stand before the first token. Zeros: nothing does.
        self._before_s = np.zeros(shape.n_instances if config.latency == "prior" else 0)

    def assign(self, requests: Ints, table: RequestTable, view: PoolView, state: PoolState) -> Assignment:
        """See ``Policy.assign``."""
        tpot_s = self._tpot_s(view.telemetry)
        if self._matching:
            return self._finish(requests, table, self._match(requests, table, tpot_s, state))
        if self._ttft is None:
            return self._finish(requests, table, self._kernel(requests, table, tpot_s, self._before_s, state))
        self._ttft.look(view, state)
        rows = [self._one(requests[k : k + 1], table, view, tpot_s, state) for k in range(len(requests))]
        columns = tuple(np.concatenate(column) for column in zip(*rows, strict=True))
        instance, cap, length, latency_s, ttft_s = columns
        answer = self._finish(requests, table, (instance, cap, length, latency_s))
        return replace(answer, ttft_s=ttft_s + view.enters_s + view.returns_s - view.arrived_s)

    def learn(self, served: Served) -> None:
        """Nothing: the decision looks at the present alone."""

    def _one(
        self, request: Ints, table: RequestTable, view: PoolView, tpot_s: Floats, state: PoolState
    ) -> tuple[NDArray[Any], ...]:
        """Place one request; its TTFT is asked of every instance that may take it."""
        assert self._ttft is not None
        tokens_in = int(table.input_tokens[request[0]])
        ttft_s = self._ttft.ttft_s(tokens_in, possible(tokens_in, self._shape, state), state)
        instance, cap, length, latency_s = self._kernel(request, table, tpot_s, ttft_s, state)
        best = int(instance[0])
        if best == NO_INSTANCE:
            return instance, cap, length, latency_s, np.full(1, np.nan)
        self._ttft.book(best, tokens_in, int(cap[0]), float(length[0]))
        return instance, cap, length, latency_s, ttft_s[best : best + 1]

    def _kernel(
        self, requests: Ints, table: RequestTable, tpot_s: Floats, ttft_s: Floats, state: PoolState
    ) -> tuple[Ints, Ints, Floats, Floats]:
        placed: tuple[Ints, Ints, Floats, Floats] = assign_batch(
            requests,
            table,
            self._shape,
            tpot_s,
            ttft_s,
            self.weights,
            self._minmax,
            self._ties_by_latency,
            self._sequence,
            state,
        )
        self._sequence += len(requests)
        return placed

    def _match(
        self, requests: Ints, table: RequestTable, tpot_s: Floats, state: PoolState
    ) -> tuple[Ints, Ints, Floats, Floats]:
        placed = match_batch(
            requests,
            table,
            self._shape,
            tpot_s,
            self._before_s,
            self.weights,
            self._minmax,
            self._sequence,
            state,
        )
        self._sequence += len(requests)
        return placed

    def _finish(
        self, requests: Ints, table: RequestTable, placed: tuple[Ints, Ints, Floats, Floats]
    ) -> Assignment:
        instance, cap, length, latency_s = placed
        quality = np.where(instance >= 0, table.quality[requests, self._shape.model[instance]], np.nan)
        return Assignment.without_ttft(instance, cap, quality, length, latency_s)

    def _tpot_s(self, telemetry: PoolTelemetry) -> Floats:
        if self._tpot is None:
            return self._shape.tpot_prior_s
        return self._tpot.predict(tpot_features(telemetry), self._shape.tier)
