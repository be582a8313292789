"""How fast each instance is, in the few numbers that simple estimators and dispatchers work with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.step_time import step_s
from rbx.heads.lps import Traffic, service_rates_per_s, slots_of
from rbx.policy.pool_state import PoolState

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Speeds:
    """Per instance (I,), for one traffic: what a calibration run would measure.

    ``prefill_tokens_per_s`` (θ) while prompts of the mean length are computed alone,
    ``decode_tokens_per_s`` (φ) and ``requests_per_s`` (μ) with every slot taken, ``decode_step_s`` a
    step of half the slots.
    """

    prefill_tokens_per_s: Floats
    decode_tokens_per_s: Floats
    requests_per_s: Floats
    decode_step_s: Floats

    @classmethod
    def of(cls, profiles: tuple[InstanceProfile, ...], traffic: tuple[Traffic, ...]) -> Speeds:
        """From the step-time model of each instance and the traffic that it is to serve."""
        rows = [_speeds(profile, seen) for profile, seen in zip(profiles, traffic, strict=True)]
        return cls(*(np.array(column) for column in zip(*rows, strict=True)))

    def backlog_s(self, state: PoolState) -> tuple[Floats, Floats]:
        """Seconds of prefill and of decode in line on each instance, at θ and φ."""
        return (
            state.pending_prefill_tokens / self.prefill_tokens_per_s,
            state.pending_decode_tokens / self.decode_tokens_per_s,
        )


def _speeds(profile: InstanceProfile, traffic: Traffic) -> tuple[float, float, float, float]:
    prompt = max(1, round(traffic.prompt_tokens))
    slots = slots_of(profile.limits, traffic)
    requests_per_s = float(service_rates_per_s(profile, traffic, slots)[-1])
    half = (slots + 1) // 2
    row = profile.coefficients_row
    return (
        prompt / step_s(row, 0, 0, prompt, prompt * prompt, 0),
        requests_per_s * traffic.output_tokens,
        requests_per_s,
        step_s(row, half, round(half * traffic.context_tokens), 0, 0, 0),
    )
