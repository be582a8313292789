"""Eq. 1 and Algorithm 1 of RouteBalance (arXiv 2606.17949, §4) as compiled kernels.

Per request, over its own feasible candidates i::

    S_i = w_q·Q_i + w_l·(1 − T_i / max T) + w_c·(1 − C_i / max C)
    T_i = tpot_i·L                 while a decode slot is free (running < max_num_seqs, none waiting)
        = tpot_i·(d_i / b_i + L)   otherwise; d pending decode tokens, b running sequences
    C_i = input·price_in + L·price_out

with L the length predicted for the candidate's model, capped by ``max_tokens``. Ties go to the
shorter queue, then to the least recently used instance, then to the lower index.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rbx.policy.candidates import book, breaks_tie, can_hold, cap_output
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Terms(NamedTuple):
    """T, C and Q of each instance for one request, and who may serve it; arrays (I,).

    ``affordable`` implies ``possible``: the prompt fits and, for the former, the budget holds.
    """

    latency_s: Floats
    cost_usd: Floats
    quality: Floats
    possible: NDArray[np.bool_]
    affordable: NDArray[np.bool_]


@njit(cache=True)
def _price(
    row: int, table: RequestTable, shape: PoolShape, tpot_s: Floats, state: PoolState, terms: Terms
) -> None:
    """Fill ``terms`` for request ``row``."""
    tokens_in = table.input_tokens[row]
    for i in range(len(shape.model)):
        terms.possible[i] = can_hold(i, tokens_in, shape, state)
        terms.affordable[i] = False
        if not terms.possible[i]:
            continue
        length = min(table.length_tokens[row, shape.model[i]], float(table.max_tokens[row]))
        queued = 0.0
        if state.running[i] >= shape.max_num_seqs[i] or state.waiting[i] > 0:
            queued = state.pending_decode_tokens[i] / max(state.running[i], 1)
        terms.latency_s[i] = tpot_s[i] * (queued + length)
        terms.cost_usd[i] = tokens_in * shape.price_in_usd[i] + length * shape.price_out_usd[i]
        terms.quality[i] = table.quality[row, shape.model[i]]
        terms.affordable[i] = terms.cost_usd[i] <= table.budget_usd[row]


@njit(cache=True)
def _highest_score(terms: Terms, weights: Floats, minmax_quality: bool, state: PoolState) -> int:
    """Argmax of Eq. 1 over the affordable candidates; −1 when there is none."""
    max_latency, max_cost = 0.0, 0.0
    low, high = np.inf, -np.inf
    for i in range(len(terms.quality)):
        if terms.affordable[i]:
            max_latency = max(max_latency, terms.latency_s[i])
            max_cost = max(max_cost, terms.cost_usd[i])
            low = min(low, terms.quality[i])
            high = max(high, terms.quality[i])
    best, best_score = -1, -np.inf
    for i in range(len(terms.quality)):
        if not terms.affordable[i]:
            continue
        quality = terms.quality[i]
        if minmax_quality:
            quality = (quality - low) / (high - low) if high > low else 0.0
        score = weights[0] * quality
        score += weights[1] * (1.0 - (terms.latency_s[i] / max_latency if max_latency > 0.0 else 0.0))
        score += weights[2] * (1.0 - (terms.cost_usd[i] / max_cost if max_cost > 0.0 else 0.0))
        if best < 0 or score > best_score or (score == best_score and breaks_tie(i, best, state)):
            best, best_score = i, score
    return best


@njit(cache=True)
def _cheapest(terms: Terms, state: PoolState) -> int:
    """The possible candidate of lowest cost, for a request whose budget nobody meets; −1 if none."""
    best = -1
    for i in range(len(terms.cost_usd)):
        if not terms.possible[i]:
            continue
        if (
            best < 0
            or terms.cost_usd[i] < terms.cost_usd[best]
            or (terms.cost_usd[i] == terms.cost_usd[best] and breaks_tie(i, best, state))
        ):
            best = i
    return best


@njit(cache=True)
def assign_batch(
    requests: Ints,
    table: RequestTable,
    shape: PoolShape,
    tpot_s: Floats,
    weights: Floats,
    minmax_quality: bool,
    sequence: int,
    state: PoolState,
) -> tuple[Ints, Ints, Floats, Floats]:
    """Algorithm 1 over rows ``requests`` of ``table`` in the order given; updates ``state``.

    Weights are (quality, latency, cost). Returns instance (−1: nobody can hold the prompt), cap on
    the output, predicted length and predicted latency of each request, all (B,).
    """
    n, n_instances = len(requests), len(shape.model)
    terms = Terms(
        np.zeros(n_instances),
        np.zeros(n_instances),
        np.zeros(n_instances),
        np.zeros(n_instances, dtype=np.bool_),
        np.zeros(n_instances, dtype=np.bool_),
    )
    instance, cap = np.full(n, -1), np.zeros(n, dtype=np.int64)
    length, latency_s = np.zeros(n), np.full(n, np.nan)
    for position in range(n):
        row = requests[position]
        _price(row, table, shape, tpot_s, state, terms)
        best = _highest_score(terms, weights, minmax_quality, state)
        if best < 0:
            best = _cheapest(terms, state)
        if best < 0:
            continue
        instance[position] = best
        tokens_in, budget = table.input_tokens[row], table.budget_usd[row]
        cap[position] = cap_output(best, tokens_in, table.max_tokens[row], budget, shape)
        length[position] = min(table.length_tokens[row, shape.model[best]], float(table.max_tokens[row]))
        latency_s[position] = terms.latency_s[best]
        book(best, tokens_in, length[position], sequence + position, shape, state)
    return instance, cap, length, latency_s
