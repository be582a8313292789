"""SCORE (ICLR 2025 workshop on sparsity in LLMs, openreview pZFJLsIY2m), re-implemented: quality less a
price on cost and latency::

    argmax  Q_i − λ·(w_C·c_i·L_i + w_L·(W_i + s_i·L_i))
    W_i = (prefill backlog + prompt) / θ_i + decode backlog / φ_i

c output price in micro-dollars a token, L predicted output, s seconds of a decode step. Neither the
units nor the weights are published.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.config.policy import ScorePolicy
from rbx.engine.step_time import step_s
from rbx.policy.ask import Ask, asks
from rbx.policy.base import Assignment, Ints, Needs
from rbx.policy.candidates import affordable, highest, possible
from rbx.policy.placing import Placing
from rbx.policy.pool_state import PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.ttft.build import LatencyModel
from rbx.policy.view import PoolView, Served

Floats = NDArray[np.float64]


class Score:
    """One λ over one pool; the backlogs are dead-reckoned."""

    needs = Needs(predictions=True)

    def __init__(self, config: ScorePolicy, latency: LatencyModel) -> None:
        """θ, φ and the calibrated s come from ``latency.speeds``."""
        self._config = config
        self._latency = latency
        self._sequence = 0

    def assign(self, requests: Ints, table: RequestTable, view: PoolView, state: PoolState) -> Assignment:
        """See ``Policy.assign``."""
        shape = self._latency.shape
        placing = Placing.of(len(requests), shape, state, self._sequence)
        for ask in asks(requests, table, view, shape):
            candidates = affordable(possible(ask.input_tokens, shape, state), ask.cost_usd, ask.budget_usd)
            if candidates.any():
                placing.put(ask, highest(self.value(ask, state), candidates, state))
        self._sequence = placing.sequence
        return placing.answer

    def value(self, ask: Ask, state: PoolState) -> Floats:
        """What one request is worth on each instance, (I,)."""
        config, speeds = self._config, self._latency.speeds
        prefill_s, decode_s = speeds.backlog_s(state)
        wait_s = prefill_s + ask.input_tokens / speeds.prefill_tokens_per_s + decode_s
        latency_s = wait_s + self._step_s(state) * ask.length_tokens
        cost_musd = 1e6 * self._latency.shape.price_out_usd * ask.length_tokens
        price = config.cost_weight * cost_musd + config.latency_weight * latency_s
        return np.asarray(ask.quality - config.tradeoff * price)

    def learn(self, served: Served) -> None:
        """Nothing: the decision looks at the present alone."""

    def _step_s(self, state: PoolState) -> Floats:
        """A decode step: of half the slots, or of what runs now and the newcomer at the mean context."""
        if self._config.decode_step == "calibrated":
            return self._latency.speeds.decode_step_s
        running = (np.minimum(state.running, self._latency.shape.max_num_seqs - 1) + 1).tolist()
        return np.array(
            [
                step_s(profile.coefficients_row, n, round(n * traffic.context_tokens), 0, 0, 0)
                for n, profile, traffic in zip(
                    running, self._latency.profiles, self._latency.traffic, strict=True
                )
            ]
        )
