"""BEAR's decision (arXiv 2607.18253): utility under a TTFT target, instance by instance.

With U_i = quality_i − λ·cost_i and TTFT_i from an estimator, counted from the request's arrival::

    hard   argmax U_i over the instances with TTFT_i + safety ≤ τ; if there is none, the fallback
    soft   argmax U_i − δ·TTFT_i

λ is ``cost_weight_per_usd``, δ ``delta_per_s``. δ = 0 is the router that knows no latency.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.config.policy import BearPolicy
from rbx.policy.ask import Ask, asks
from rbx.policy.base import BY_HOPELESS_RULE, BY_POLICY, NO_INSTANCE, SHED, Assignment, Ints, Needs
from rbx.policy.candidates import affordable, highest, possible
from rbx.policy.placing import Placing
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.ttft.estimator import TtftEstimator
from rbx.policy.view import PoolView, Served

Floats = NDArray[np.float64]


class Bear:
    """One rule over one pool; without an estimator it is the latency-agnostic router."""

    def __init__(self, config: BearPolicy, shape: PoolShape, ttft: TtftEstimator | None) -> None:
        """``ttft`` answers how long each instance takes; ``None`` leaves latency out."""
        shown = Needs() if ttft is None else ttft.needs
        self.needs = Needs(predictions=True, snapshots=shown.snapshots, served=shown.served)
        self._config = config
        self._shape = shape
        self._ttft = ttft
        self._sequence = 0

    def assign(self, requests: Ints, table: RequestTable, view: PoolView, state: PoolState) -> Assignment:
        """See ``Policy.assign``."""
        shape = self._shape
        if self._ttft is not None:
            self._ttft.look(view, state)
        placing = Placing.of(len(requests), shape, state, self._sequence)
        for ask in asks(requests, table, view, shape):
            candidates = affordable(possible(ask.input_tokens, shape, state), ask.cost_usd, ask.budget_usd)
            if candidates.any():
                self._decide(ask, candidates, placing)
        self._sequence = placing.sequence
        return placing.answer

    def learn(self, served: Served) -> None:
        """Hand it to the estimator."""
        if self._ttft is not None:
            self._ttft.learn(served)

    def _decide(self, ask: Ask, candidates: NDArray[np.bool_], placing: Placing) -> None:
        answer, state, k = placing.answer, placing.state, ask.position
        utility = ask.quality - self._config.cost_weight_per_usd * ask.cost_usd
        ttft_s, on_time = self._on_time(ask, candidates, state)
        best, mode = self._choose(utility, ttft_s, candidates, on_time, state)
        answer.mode[k] = mode
        if self._ttft is not None:
            answer.on_time[k] = np.count_nonzero(on_time)
        if best == NO_INSTANCE:
            return
        placing.put(ask, best)
        if self._ttft is not None:
            answer.ttft_s[k] = ttft_s[best]
            cap, length = int(answer.max_tokens[k]), float(ask.length_tokens[best])
            self._ttft.book(best, ask.input_tokens, cap, length)

    def _on_time(
        self, ask: Ask, candidates: NDArray[np.bool_], state: PoolState
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """TTFT from arrival, and who meets the target; nothing at all where latency is left out.

        Who is in time is asked within the target, which spares the replay of long queues and never takes
        the lower bound of a replay that gave up for an answer. How late the others are matters to the hard
        rule only if there is nobody else.
        """
        if self._ttft is None:
            return np.zeros(len(candidates)), candidates
        latest_s = ask.ttft_target_s - self._config.safety_s
        within_s = latest_s - ask.waited_s
        on_time = candidates & (within_s == np.inf)
        if 0.0 < within_s < np.inf:
            within_s += 1e-9 * latest_s  # rounding must not shut out an instance that is just in time
            ttft_s = self._ttft.ttft_s(ask.input_tokens, candidates, state, within_s) + ask.waited_s
            on_time = candidates & (ttft_s <= latest_s)
            settled = on_time.any() or self._config.fallback == "shed"
            if self._config.rule == "hard" and settled:
                return ttft_s, on_time
        return self._ttft.ttft_s(ask.input_tokens, candidates, state) + ask.waited_s, on_time

    def _choose(
        self,
        utility: Floats,
        ttft_s: Floats,
        candidates: NDArray[np.bool_],
        on_time: NDArray[np.bool_],
        state: PoolState,
    ) -> tuple[int, int]:
        """The instance, or none for a request that is shed, and how it was found."""
        if self._config.rule == "soft":
            return int(highest(utility - self._config.delta_per_s * ttft_s, candidates, state)), BY_POLICY
        if on_time.any():
            return int(highest(utility, on_time, state)), BY_POLICY
        if self._config.fallback == "shed":
            return NO_INSTANCE, SHED
        hopeless = ttft_s if self._config.fallback == "sacrifice" else -ttft_s
        return int(highest(hopeless, candidates, state)), BY_HOPELESS_RULE
