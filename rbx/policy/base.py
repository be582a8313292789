"""The one protocol of a policy, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rbx.policy.pool_state import PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.view import PoolView, Served

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NO_INSTANCE = -1

# How a request was placed: by the policy's own rule, by its rule for hopeless ones, or turned away.
BY_POLICY, BY_HOPELESS_RULE, SHED = 0, 1, 2
MODES = ("policy", "hopeless", "shed")
# What a gateway says beside these where its policy or its heads failed, and the shortest queue decided.
FALLBACK = "fallback"


@dataclass(frozen=True)
class Needs:
    """What a policy asks of its surroundings; what it does not need is not worked out for it."""

    predictions: bool = False  # quality and length of the prompt, so that it must be encoded
    snapshots: bool = False  # the instances' whole state, not their telemetry alone
    served: bool = False  # how earlier requests fared


@dataclass(frozen=True)
class Assignment:
    """Where each of B requests goes; arrays (B,) in the order the requests were given.

    ``instance`` is ``NO_INSTANCE`` where no living instance can hold the prompt, or the request was
    shed. ``max_tokens`` is the cap to dispatch with, after context length and budget. The predicted
    columns belong to the chosen instance, NaN for policies that do not predict: ``latency_s`` from
    dispatch to the last token, ``ttft_s`` from arrival to the first. ``on_time`` counts the candidates
    that were predicted to meet the request's target, −1 where nobody asked; ``mode`` indexes ``MODES``.
    """

    instance: Ints
    max_tokens: Ints
    quality: Floats
    length_tokens: Floats
    latency_s: Floats
    ttft_s: Floats
    on_time: Ints
    mode: Ints

    @classmethod
    def without_ttft(
        cls, instance: Ints, max_tokens: Ints, quality: Floats, length_tokens: Floats, latency_s: Floats
    ) -> Assignment:
        """Of a policy that predicts no TTFT and turns nobody away."""
        n = len(instance)
        nothing = np.full(n, np.nan), np.full(n, -1), np.full(n, BY_POLICY)
        return cls(instance, max_tokens, quality, length_tokens, latency_s, *nothing)


class Policy(Protocol):
    """Decides for one batch; knows no clock, no socket and no global random state."""

    @property
    def needs(self) -> Needs:
        """What must be at hand before deciding."""
        ...

    def assign(self, requests: Ints, table: RequestTable, view: PoolView, state: PoolState) -> Assignment:
        """Assign rows ``requests`` of ``table`` in the order given and update ``state``."""
        ...

    def learn(self, served: Served) -> None:
        """Take in how earlier requests fared; called only if ``needs.served``."""
        ...
