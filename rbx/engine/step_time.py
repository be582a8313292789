"""What a step costs: the four-coefficient model of arXiv 2607.18253, and runs of it in closed form.

T = b0 + b1·tokens + b2·Σ decode context + b3·Σ prefill work. A decode step adds one token to the
context of each of its sequences, so the k-th step of a run of identical batches costs b2·n more than
the one before it and the length of the whole run is a quadratic in its number of steps.
"""

from __future__ import annotations

import math

from rbx.compiled import bare_njit


@bare_njit
def prefill_work(tokens: int, computed_tokens: int) -> int:
    """Attention work of a prefill chunk of ``tokens`` over ``computed_tokens`` of context: n·c + n(n+1)/2."""
    return tokens * computed_tokens + tokens * (tokens + 1) // 2


@bare_njit
def step_s(
    b0: float, b1: float, b2: float, b3: float, tokens: int, context_tokens: int, attention_work: int
) -> float:
    """Seconds of one step of ``tokens`` in all, decoding over ``context_tokens`` held before the step."""
    return b0 + b1 * tokens + b2 * context_tokens + b3 * attention_work


@bare_njit
def decode_run_s(b0: float, b1: float, b2: float, decodes: int, context_tokens: int, steps: int) -> float:
    """Seconds of ``steps`` steps of the same ``decodes`` sequences, ``context_tokens`` before the first."""
    first_s = b0 + b1 * decodes + b2 * context_tokens
    return steps * first_s + b2 * decodes * (steps * (steps - 1) // 2)


@bare_njit
def decode_steps_within(
    b0: float, b1: float, b2: float, decodes: int, context_tokens: int, anchor_s: float, limit_s: float
) -> int:
    """Most steps of a run started at ``anchor_s`` that all end before ``limit_s`` (finite).

    The root of the quadratic is a guess; the answer is settled by evaluating ``decode_run_s`` itself,
    so that it agrees to the last bit with a run that is walked step by step.
    """
    first_s = b0 + b1 * decodes + b2 * context_tokens
    growth_s = b2 * decodes
    room_s = limit_s - anchor_s
    if room_s <= 0.0:
        return 0
    slope = first_s - 0.5 * growth_s
    steps = int(2.0 * room_s / (slope + math.sqrt(slope * slope + 2.0 * growth_s * room_s)))
    while anchor_s + decode_run_s(b0, b1, b2, decodes, context_tokens, steps + 1) < limit_s:
        steps += 1
    while steps > 0 and anchor_s + decode_run_s(b0, b1, b2, decodes, context_tokens, steps) >= limit_s:
        steps -= 1
    return steps
