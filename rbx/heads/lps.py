"""Limited processor sharing: mean waits of an instance whose state can't be seen.

Up to k queries share the server, the rest wait first come first served. With Poisson arrivals at rate
α and exponential sizes the wait is exactly ρ^k / (μ − α), ρ = α/μ: the closed form of arXiv 2607.18253.
For other sizes it is multiplied by (1 + cv²)/2, which is exact for k = 1 (Pollaczek–Khinchine) and an
approximation from heavy traffic otherwise (Zhang & Zwart, 2008). An engine gets faster with the size of
its batch, so below saturation only the birth–death form with the rates μ(n) of its step time is of use
(Gupta & Zhang, arXiv 1409.0153).

An unstable queue (α ≥ μ) has no mean wait: the answer is ``cap_s``, infinite unless given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import EngineLimits
from rbx.engine.instance_profile import InstanceProfile
from rbx.errors import EngineError

Floats = NDArray[np.float64]


def lps_wait_s(
    arrival_per_s: float, service_per_s: float, slots: int, size_cv2: float = 1.0, cap_s: float = math.inf
) -> float:
    """Mean seconds before service: (1 + cv²)/2 · ρ^k / (μ − α), at most ``cap_s``.

    ``size_cv2`` is the squared coefficient of variation of the sizes; 1 is the paper's form. Raises
    ``EngineError`` for rates that are not positive and finite, no slots, or a negative cv².
    """
    _positive("arrival_per_s", arrival_per_s)
    _positive("service_per_s", service_per_s)
    _check_shape(slots, size_cv2, cap_s)
    if arrival_per_s >= service_per_s:
        return cap_s
    load = arrival_per_s / service_per_s
    wait_s = 0.5 * (1.0 + size_cv2) * load**slots / (service_per_s - arrival_per_s)
    return min(wait_s, cap_s)


@dataclass(frozen=True)
class Traffic:
    """Mean prompt and output of the requests, and the squared coefficient of variation of the output."""

    prompt_tokens: float
    output_tokens: float
    output_cv2: float = 1.0

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        _positive("prompt_tokens", self.prompt_tokens)
        if not (math.isfinite(self.output_tokens) and self.output_tokens >= 1.0):
            raise EngineError(f"output_tokens is {self.output_tokens}; it must be finite and at least 1")
        if not (math.isfinite(self.output_cv2) and self.output_cv2 >= 0.0):
            raise EngineError(f"output_cv2 is {self.output_cv2}; it must be finite and not negative")

    @property
    def context_tokens(self) -> float:
        """Mean context of a request in service: its prompt and what it has generated.

        Requests in service are met in proportion to their length, so that is E[L²]/(2·E[L]).
        """
        return self.prompt_tokens + 0.5 * self.output_tokens * (1.0 + self.output_cv2)


@dataclass(frozen=True)
class LpsEstimate:
    """Mean wait before the first batch, mean requests in service, and mean time to first token."""

    wait_s: float
    in_service: float
    ttft_s: float


def slots_of(limits: EngineLimits, traffic: Traffic) -> int:
    """k: the seats, or as many mean contexts as the KV cache holds if those are fewer; at least 1."""
    held = limits.kv_blocks * limits.block_size / traffic.context_tokens
    return max(1, min(limits.max_num_seqs, int(held)))


def service_rates_per_s(profile: InstanceProfile, traffic: Traffic, slots: int) -> Floats:
    """μ(n) for n = 1 … ``slots``: requests finished per second while n are in service, (slots,).

    In L steps n requests are replaced, each by one prefill and L − 1 decodes beside the others:
    μ(n) = n / (L·b0 + n·((L − 1)·D + C)), D what a decode and C what a prompt adds to its steps.
    """
    b0 = profile.coefficients.as_b[0]
    n = np.arange(1, slots + 1, dtype=np.float64)
    decodes_s = (traffic.output_tokens - 1.0) * _decode_s(profile, traffic)
    cycle_s = traffic.output_tokens * b0 + n * (decodes_s + _prefill_s(profile, traffic))
    return np.asarray(n / cycle_s)


def engine_lps(
    profile: InstanceProfile, traffic: Traffic, arrival_per_s: float, cap_s: float = math.inf
) -> LpsEstimate:
    """State-dependent LPS: π_n = π_0·Π α/μ(i), r = α/μ(k), W = (1 + cv²)/2 · π_k / (μ(k)·(1 − r)²).

    TTFT is W, plus the wait for the batch in which a newcomer may stand (half a step while the
    instance is busy, one more under asynchronous scheduling), plus the ⌈p/(B − n)⌉ mixed steps of its
    prefill beside n = E[min(N, k)] decodes. Each mean is at most ``cap_s``; all requests in service
    count as k when the queue is unstable. Raises ``EngineError`` for a rate out of range.
    """
    _positive("arrival_per_s", arrival_per_s)
    slots = slots_of(profile.limits, traffic)
    _check_shape(slots, traffic.output_cv2, cap_s)
    rates = service_rates_per_s(profile, traffic, slots)
    if arrival_per_s >= rates[-1]:
        return LpsEstimate(cap_s, float(slots), cap_s)
    weight = np.concatenate([[0.0], np.cumsum(np.log(arrival_per_s / rates))])
    weight = np.exp(weight - weight.max())
    r = arrival_per_s / rates[-1]
    tail = weight[-1] * r / (1.0 - r)  # more than k present
    total = weight.sum() + tail
    in_service = float((weight @ np.arange(slots + 1) + slots * tail) / total)
    wait_s = float(weight[-1] / total / (rates[-1] * (1.0 - r) ** 2)) * 0.5 * (1.0 + traffic.output_cv2)
    busy = 1.0 - float(weight[0] / total)
    ttft_s = (
        wait_s + _entry_s(profile, traffic, in_service, busy) + _mixed_steps_s(profile, traffic, in_service)
    )
    return LpsEstimate(min(wait_s, cap_s), in_service, min(ttft_s, cap_s))


def _decode_s(profile: InstanceProfile, traffic: Traffic) -> float:
    """What one decoding request adds to a step."""
    _, _, decode_s, context_s, _, _ = profile.coefficients.as_b
    return decode_s + context_s * traffic.context_tokens


def _decode_step_s(profile: InstanceProfile, traffic: Traffic, n: float) -> float:
    return profile.coefficients.as_b[0] + n * _decode_s(profile, traffic)


def _prefill_s(profile: InstanceProfile, traffic: Traffic) -> float:
    """What one prompt adds to the steps that compute it, in chunks of the whole token budget.

    With chunks n₁, n₂, … the pairs with computed tokens are Σ_{i<j} nᵢ·nⱼ = (p² − Σ n²)/2.
    """
    _, prefill_s, _, _, squared_s, cross_s = profile.coefficients.as_b
    prompt, chunk = traffic.prompt_tokens, float(profile.limits.max_num_batched_tokens)
    whole, rest = divmod(prompt, chunk)
    squared = whole * chunk**2 + rest**2
    return prefill_s * prompt + squared_s * squared + cross_s * 0.5 * (prompt**2 - squared)


def _entry_s(profile: InstanceProfile, traffic: Traffic, in_service: float, busy: float) -> float:
    share_s = in_service * _prefill_s(profile, traffic) / traffic.output_tokens
    step_s = _decode_step_s(profile, traffic, in_service) + share_s
    return busy * step_s * (1.5 if profile.limits.async_scheduling else 0.5)


def _mixed_steps_s(profile: InstanceProfile, traffic: Traffic, in_service: float) -> float:
    room = max(1.0, profile.limits.max_num_batched_tokens - in_service)
    steps = math.ceil(traffic.prompt_tokens / room)
    return steps * _decode_step_s(profile, traffic, in_service) + _prefill_s(profile, traffic)


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0.0):
        raise EngineError(f"{name} is {value}; it must be finite and above 0")


def _check_shape(slots: int, size_cv2: float, cap_s: float) -> None:
    if slots < 1:
        raise EngineError(f"slots is {slots}; at least one query must be in service")
    if not (math.isfinite(size_cv2) and size_cv2 >= 0.0):
        raise EngineError(f"size_cv2 is {size_cv2}; it must be finite and not negative")
    if not cap_s > 0.0:
        raise EngineError(f"cap_s is {cap_s}; it must be above 0")
