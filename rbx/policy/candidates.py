"""What every kernel asks of a candidate instance: room for the prompt, cap, tie-break, booking."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.compiled import njit
from rbx.policy.pool_state import PoolShape, PoolState


@njit(cache=True, inline="always")
def can_hold(alive: bool, input_tokens: int, max_model_len: int) -> bool:
    """Alive, and the context leaves room for at least one output token."""
    return alive and input_tokens + 1 <= max_model_len


def possible(input_tokens: int, shape: PoolShape, state: PoolState) -> NDArray[np.bool_]:
    """``can_hold`` of every instance, (I,)."""
    return np.asarray(state.alive & (input_tokens + 1 <= shape.max_model_len))


def affordable(
    candidates: NDArray[np.bool_], cost_usd: NDArray[np.float64], budget_usd: float
) -> NDArray[np.bool_]:
    """Candidates within budget; if there are none, the cheapest of them (docs/decisions.md)."""
    within = candidates & (cost_usd <= budget_usd)
    if within.any() or not candidates.any():
        return np.asarray(within)
    return cheapest(candidates, cost_usd)


def cheapest(candidates: NDArray[np.bool_], cost_usd: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The candidates of the lowest cost, of which there must be one."""
    return np.asarray(candidates & (cost_usd == cost_usd[candidates].min()))


@njit(cache=True, inline="always")
def breaks_tie(i: int, best: int, state: PoolState) -> bool:
    """Whether ``i`` goes before an equally good ``best``: shorter queue, then least recently used."""
    queue = state.running[i] + state.waiting[i]
    best_queue = state.running[best] + state.waiting[best]
    if queue != best_queue:
        return bool(queue < best_queue)
    return bool(state.last_used[i] < state.last_used[best])


@njit(cache=True)
def highest(score: NDArray[np.float64], candidates: NDArray[np.bool_], state: PoolState) -> int:
    """The candidate of the highest score (I,), which may be infinite; ties by ``breaks_tie``; −1 if none."""
    best = -1
    for i in range(len(score)):
        if not candidates[i]:
            continue
        better = best < 0 or score[i] > score[best]
        if better or (score[i] == score[best] and breaks_tie(i, best, state)):
            best = i
    return best


@njit(cache=True)
def book(
    i: int, input_tokens: int, length_tokens: float, sequence: int, shape: PoolShape, state: PoolState
) -> None:
    """Dead reckoning (docs/decisions.md): one request more on ``i``, waiting unless a slot is free."""
    if state.running[i] < shape.max_num_seqs[i] and state.waiting[i] == 0:
        state.running[i] += 1
    else:
        state.waiting[i] += 1
    state.pending_prefill_tokens[i] += input_tokens
    state.pending_decode_tokens[i] += length_tokens
    state.last_used[i] = sequence


@njit(cache=True)
def cap_output(i: int, input_tokens: int, max_tokens: int, budget_usd: float, shape: PoolShape) -> int:
    """Largest output that request, context length and budget allow on ``i``; at least 1.

    Budget clamp: max(1, ⌊(b − input cost) / c_out⌋). The quotient is nudged up by 1e-9 relative,
    since (n·c)/c may come out just below n.
    """
    cap = int(min(max_tokens, shape.max_model_len[i] - input_tokens))
    price_out = shape.price_out_usd[i]
    if np.isfinite(budget_usd) and price_out > 0.0:
        left = (budget_usd - input_tokens * shape.price_in_usd[i]) / price_out
        # Compared as floats first: a huge budget over a tiny price does not fit an integer.
        cap = int(min(float(cap), np.floor(max(left, 0.0) * (1.0 + 1e-9))))
    return max(1, cap)
