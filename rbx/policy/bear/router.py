"""BEAR's decision (arXiv 2607.18253): utility under a TTFT target, instance by instance.

With U_i = quality_i − λ·cost_i and TTFT_i from an estimator, counted from the request's arrival::

    hard   argmax U_i over the instances with TTFT_i ≤ τ; if there is none, the fallback
    soft   argmax U_i − δ·TTFT_i

λ is ``cost_weight_per_usd``, δ ``delta_per_s``. δ = 0 is the router that knows no latency.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.config.policy import BearPolicy
from rbx.policy.base import BY_FALLBACK, BY_POLICY, NO_INSTANCE, SHED, Assignment, Ints, Needs
from rbx.policy.candidates import affordable, book, cap_output, possible
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.ttft.estimator import TtftEstimator
from rbx.policy.view import PoolView, Served

Floats = NDArray[np.float64]


class Bear:
    """One rule over one pool; without an estimator it is the latency-agnostic router."""

    def __init__(self, config: BearPolicy, shape: PoolShape, ttft: TtftEstimator | None) -> None:
        """``ttft`` answers how long each instance takes; ``None`` leaves latency out."""
        asks = Needs() if ttft is None else ttft.needs
        self.needs = Needs(predictions=True, snapshots=asks.snapshots, served=asks.served)
        self._config = config
        self._shape = shape
        self._ttft = ttft
        self._sequence = 0

    def assign(self, requests: Ints, table: RequestTable, view: PoolView, state: PoolState) -> Assignment:
        """See ``Policy.assign``."""
        n, shape = len(requests), self._shape
        if self._ttft is not None:
            self._ttft.look(view, state)
        answer = Assignment(
            instance=np.full(n, NO_INSTANCE),
            max_tokens=np.zeros(n, dtype=np.int64),
            quality=np.full(n, np.nan),
            length_tokens=np.zeros(n),
            latency_s=np.full(n, np.nan),
            ttft_s=np.full(n, np.nan),
            on_time=np.full(n, -1),
            mode=np.full(n, BY_POLICY),
        )
        for k, row in enumerate(requests.tolist()):
            tokens_in, max_tokens = int(table.input_tokens[row]), int(table.max_tokens[row])
            length = np.minimum(table.length_tokens[row][shape.model], float(max_tokens))
            cost_usd = tokens_in * shape.price_in_usd + length * shape.price_out_usd
            budget_usd = float(table.budget_usd[row])
            candidates = affordable(possible(tokens_in, shape, state), cost_usd, budget_usd)
            if not candidates.any():
                continue
            quality = table.quality[row][shape.model]
            utility = quality - self._config.cost_weight_per_usd * cost_usd
            waited_s = view.enters_s - float(view.arrived_s[k]) + view.returns_s
            ttft_s = self._ttft_s(tokens_in, candidates, waited_s, state)
            on_time = candidates & (ttft_s <= table.ttft_target_s[row])
            best, mode = self._choose(utility, ttft_s, candidates, on_time, state)
            answer.mode[k] = mode
            if self._ttft is not None:
                answer.on_time[k] = int(on_time.sum())
            if best == NO_INSTANCE:
                continue
            answer.instance[k] = best
            answer.quality[k] = quality[best]
            answer.length_tokens[k] = length[best]
            answer.max_tokens[k] = cap_output(best, tokens_in, max_tokens, budget_usd, shape)
            if self._ttft is not None:
                answer.ttft_s[k] = ttft_s[best]
                self._ttft.book(best, tokens_in, int(answer.max_tokens[k]), float(length[best]))
            book(best, tokens_in, float(length[best]), self._sequence, shape, state)
            self._sequence += 1
        return answer

    def learn(self, served: Served) -> None:
        """Hand it to the estimator."""
        if self._ttft is not None:
            self._ttft.learn(served)

    def _ttft_s(
        self, tokens_in: int, candidates: NDArray[np.bool_], waited_s: float, state: PoolState
    ) -> Floats:
        """From arrival; nothing at all where latency is left out."""
        if self._ttft is None:
            return np.zeros(len(candidates))
        return np.asarray(self._ttft.ttft_s(tokens_in, candidates, state) + waited_s)

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
            return _first(utility - self._config.delta_per_s * ttft_s, candidates, state), BY_POLICY
        if on_time.any():
            return _first(utility, on_time, state), BY_POLICY
        if self._config.fallback == "shed":
            return NO_INSTANCE, SHED
        hopeless = ttft_s if self._config.fallback == "sacrifice" else -ttft_s
        return _first(hopeless, candidates, state), BY_FALLBACK


def _first(score: Floats, candidates: NDArray[np.bool_], state: PoolState) -> int:
    """Highest score; ties go to the shorter queue, then to the least recently used, then to the first."""
    among = np.flatnonzero(candidates)
    best = among[score[among] == score[among].max()]
    if len(best) == 1:
        return int(best[0])
    queue = state.running[best] + state.waiting[best]
    return int(best[np.lexsort((best, state.last_used[best], queue))[0]])
