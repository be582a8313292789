"""TTFT of instances whose state can't be seen: limited processor sharing (``rbx.heads.lps``)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rbx.engine.instance_profile import InstanceProfile
from rbx.heads.lps import Traffic, engine_lps, lps_wait_s
from rbx.policy.base import Needs
from rbx.policy.pool_state import PoolState
from rbx.policy.speeds import Speeds
from rbx.policy.ttft.rates import Rates
from rbx.policy.view import PoolView, Served

Floats = NDArray[np.float64]

_CAP_S = 60.0
_LEAST_COMPLETIONS = 16
_SLOWEST_PER_S = 1e-3


class SharedServer:
    """ρ^k/(μ − α) + prompt/θ with k = running now, α and μ measured; the paper's stateless estimate.

    α is the rate of dispatches, μ that of completions (a prior until 16 of them), both averages over
    windows of one second. An instance that gets no less than it finishes counts with 60 s.
    """

    def __init__(self, speeds: Speeds, prefill_tokens_per_s: Floats) -> None:
        """``speeds`` gives the prior of μ; θ (I,) is given apart, since it may be tuned."""
        self.needs = Needs(served=True)
        self._tokens_per_s = prefill_tokens_per_s
        self._sent = Rates(np.zeros(len(prefill_tokens_per_s)))
        self._finished = Rates(speeds.requests_per_s, _LEAST_COMPLETIONS)
        self._now_s = 0.0
        self._wait_s = np.zeros(0)

    def look(self, view: PoolView, state: PoolState) -> None:
        """See ``TtftEstimator.look``."""
        self._now_s = view.now_s
        self._sent.move_to(view.now_s)
        self._finished.move_to(view.now_s)
        rates = zip(
            self._sent.per_s.tolist(), self._finished.per_s.tolist(), state.running.tolist(), strict=True
        )
        self._wait_s = np.array([_wait_s(sent, finished, running) for sent, finished, running in rates])

    def ttft_s(
        self, input_tokens: int, candidates: NDArray[np.bool_], state: PoolState, within_s: float = np.inf
    ) -> Floats:
        """See ``TtftEstimator.ttft_s``."""
        return np.asarray(self._wait_s + input_tokens / self._tokens_per_s)

    def book(self, instance: int, input_tokens: int, max_tokens: int, length_tokens: float) -> None:
        """See ``TtftEstimator.book``."""
        self._sent.note(instance, self._now_s)

    def learn(self, served: Served) -> None:
        """Count completions."""
        for instance, done_s in zip(served.instance.tolist(), served.done_s.tolist(), strict=True):
            self._finished.note(instance, done_s)


def _wait_s(sent_per_s: float, finished_per_s: float, running: int) -> float:
    if sent_per_s < _SLOWEST_PER_S:
        return 0.0
    return lps_wait_s(sent_per_s, max(finished_per_s, _SLOWEST_PER_S), max(running, 1), cap_s=_CAP_S)


class SharedEngine:
    """The state-dependent form with the rates of the step-time model; α alone is measured."""

    def __init__(self, profiles: tuple[InstanceProfile, ...], traffic: tuple[Traffic, ...]) -> None:
        """One profile and one traffic for each instance."""
        self.needs = Needs()
        self._profiles = profiles
        self._traffic = traffic
        self._sent = Rates(np.zeros(len(profiles)))
        self._now_s = 0.0
        self._estimate_s = np.zeros(len(profiles))
        self._window = -1

    def look(self, view: PoolView, state: PoolState) -> None:
        """See ``TtftEstimator.look``; the estimate moves once a window."""
        self._now_s = view.now_s
        self._sent.move_to(view.now_s)
        if math.floor(view.now_s) == self._window:
            return
        self._window = math.floor(view.now_s)
        for i, (profile, traffic) in enumerate(zip(self._profiles, self._traffic, strict=True)):
            rate_per_s = max(float(self._sent.per_s[i]), _SLOWEST_PER_S)
            self._estimate_s[i] = engine_lps(profile, traffic, rate_per_s, _CAP_S).ttft_s

    def ttft_s(
        self, input_tokens: int, candidates: NDArray[np.bool_], state: PoolState, within_s: float = np.inf
    ) -> Floats:
        """See ``TtftEstimator.ttft_s``; a mean over requests, whatever the prompt."""
        return self._estimate_s.copy()

    def book(self, instance: int, input_tokens: int, max_tokens: int, length_tokens: float) -> None:
        """See ``TtftEstimator.book``."""
        self._sent.note(instance, self._now_s)

    def learn(self, served: Served) -> None:
        """Nothing: completions follow from the model."""
