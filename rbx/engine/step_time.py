"""What a step costs: a sum of six terms, and runs of it in closed form.

T = b0 + p·prefill tokens + d·decodes + x·Σ decode context + s·Σ n² + r·Σ n·c, the last two over prefill
chunks of n tokens behind c computed ones: feature set B of ``instance_profile``, which holds A (the
four-coefficient model of arXiv 2607.18253) and C exactly. A decode step adds one token to the context of
each of its sequences, so the k-th step of a run of identical batches costs x·decodes more than the one
before it and the length of the whole run is a quadratic in its number of steps.

``prices`` is a row that starts with the six coefficients in seconds, such as one of ``EngineState.times``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rbx.compiled import bare_njit
from rbx.engine import instance_columns as inst

Floats = NDArray[np.float64]


@bare_njit
def step_s(
    prices: Floats,
    decodes: int,
    context_tokens: int,
    prefill_tokens: int,
    prefill_squared: int,
    prefill_cross: int,
) -> float:
    """Seconds of one step; ``context_tokens`` are those that its decodes hold before it."""
    return float(
        _decode_step_s(prices, decodes, context_tokens)
        + prices[inst.PER_PREFILL_TOKEN_S] * prefill_tokens
        + prices[inst.PER_SQUARED_S] * prefill_squared
        + prices[inst.PER_CROSS_S] * prefill_cross
    )


@bare_njit
def decode_run_s(prices: Floats, decodes: int, context_tokens: int, steps: int) -> float:
    """Seconds of ``steps`` steps of the same ``decodes`` sequences, ``context_tokens`` before the first."""
    growth_s = prices[inst.PER_CONTEXT_TOKEN_S] * decodes
    return float(
        steps * _decode_step_s(prices, decodes, context_tokens) + growth_s * (steps * (steps - 1) // 2)
    )


@bare_njit
def decode_steps_within(
    prices: Floats, decodes: int, context_tokens: int, anchor_s: float, limit_s: float
) -> int:
    """Most steps of a run started at ``anchor_s`` that all end before ``limit_s`` (finite).

    The root of the quadratic is a guess; the answer is settled by evaluating ``decode_run_s`` itself,
    so that it agrees to the last bit with a run that is walked step by step.
    """
    growth_s = prices[inst.PER_CONTEXT_TOKEN_S] * decodes
    room_s = limit_s - anchor_s
    if room_s <= 0.0:
        return 0
    slope = _decode_step_s(prices, decodes, context_tokens) - 0.5 * growth_s
    steps = int(2.0 * room_s / (slope + math.sqrt(slope * slope + 2.0 * growth_s * room_s)))
    while anchor_s + decode_run_s(prices, decodes, context_tokens, steps + 1) < limit_s:
        steps += 1
    while steps > 0 and anchor_s + decode_run_s(prices, decodes, context_tokens, steps) >= limit_s:
        steps -= 1
    return steps


@bare_njit
def _decode_step_s(prices: Floats, decodes: int, context_tokens: int) -> float:
    return float(
        prices[inst.PER_STEP_S]
        + prices[inst.PER_DECODE_S] * decodes
        + prices[inst.PER_CONTEXT_TOKEN_S] * context_tokens
    )
