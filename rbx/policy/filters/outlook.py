"""What a filter looks at: one request's predicted latency on every instance, and what it is promised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbx.engine.telemetry import tpot_features
from rbx.policy.ask import Ask
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.routebalance import TpotPredictor
from rbx.policy.ttft.estimator import TtftEstimator
from rbx.policy.view import PoolView

Floats = NDArray[np.float64]
Candidates = NDArray[np.bool_]


class Targets(NamedTuple):
    """Seconds that a request is promised, infinite where it is not: TTFT from arrival, TPOT, E2E."""

    ttft_s: float
    tpot_s: float
    e2e_s: float


@dataclass(frozen=True)
class Outlook:
    """One request; arrays (I,) follow the instances and hold anything where no candidate stands.

    ``ttft_s`` counts from the request's arrival, ``length_tokens`` is the prediction for the instance's
    model within the request's cap, ``cost_usd`` prices it with the prompt (Eq. 2 of arXiv 2606.17949).
    """

    candidates: Candidates
    ttft_s: Floats
    tpot_s: Floats
    length_tokens: Floats
    cost_usd: Floats
    budget_usd: float
    targets: Targets

    @property
    def e2e_s(self) -> Floats:
        """TTFT + N·TPOT with N the predicted length."""
        return np.asarray(self.ttft_s + self.length_tokens * self.tpot_s)

    @property
    def affordable(self) -> Candidates:
        """Candidates that keep to the budget, each with its own predicted length."""
        return np.asarray(self.candidates & (self.cost_usd <= self.budget_usd))


class LatencyForecast:
    """TTFT by an estimator and TPOT by the heads or the prior, as a decision goes through its batch.

    One decision asks ``look`` once, then for each request in turn ``ttft_s`` and ``book``.
    """

    def __init__(self, shape: PoolShape, ttft: TtftEstimator, tpot: TpotPredictor | None) -> None:
        """Without ``tpot`` the static prior of the pool stands for it."""
        self.ttft = ttft
        self.tpot_s: Floats = shape.tpot_prior_s
        self._shape = shape
        self._tpot = tpot

    def look(self, view: PoolView, state: PoolState) -> None:
        """Take in the pool; TPOT is predicted once a batch, from what telemetry shows (Algorithm 1)."""
        self.ttft.look(view, state)
        if self._tpot is not None:
            self.tpot_s = self._tpot.predict(tpot_features(view.telemetry), self._shape.tier)

    def ttft_s(self, ask: Ask, candidates: Candidates, state: PoolState) -> Floats:
        """From the request's arrival to its first token, (I,)."""
        return self.ttft.ttft_s(ask.input_tokens, candidates, state) + ask.waited_s

    def book(self, ask: Ask, instance: int, max_tokens: int) -> None:
        """``ask`` goes to ``instance``."""
        self.ttft.book(instance, ask.input_tokens, max_tokens, float(ask.length_tokens[instance]))
