"""Eq. 1 and Algorithm 1 of RouteBalance (arXiv 2606.17949, §4) as compiled kernels.

Per request, over its own feasible candidates i::

    S_i = w_q·Q_i + w_l·(1 − T_i / max T) + w_c·(1 − C_i / max C)
    T_i = tpot_i·L                 while a decode slot is free (running < max_num_seqs, none waiting)
        = tpot_i·(d_i / b_i + L)   otherwise; d pending decode tokens, b running sequences
        = ttft_i + tpot_i·L        where an estimator gives the time before the first token
    C_i = input·price_in + L·price_out

with L the length predicted for the candidate's model, capped by ``max_tokens``. Ties go to the
shorter queue, then to the least recently used instance, then to the lower index; by latency, to the lower
T before all that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbx.compiled import njit
from rbx.policy.candidates import book, breaks_tie, can_hold, cap_output
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Terms(NamedTuple):
    """Per instance, for the request at hand: T, C, Q, and whether its prompt fits; arrays (I,).

    ``queued_tokens`` is d/b where no decode slot is free, else 0; it depends on the state alone and
    is kept up to date as requests are booked. Where an estimator gives ``ttft_s``, it is 0.
    """

    queued_tokens: Floats
    ttft_s: Floats
    latency_s: Floats
    cost_usd: Floats
    quality: Floats
    possible: NDArray[np.bool_]


@njit(cache=True, error_model="numpy")
def _queued_tokens(i: int, shape: PoolShape, state: PoolState) -> float:
    """d/b of Eq. 1 on instance ``i``; 0 while a decode slot is free."""
    if state.running[i] < shape.max_num_seqs[i] and state.waiting[i] == 0:
        return 0.0
    return float(state.pending_decode_tokens[i] / max(state.running[i], 1))


@njit(cache=True, error_model="numpy")
def _price(
    row: int, table: RequestTable, shape: PoolShape, tpot_s: Floats, state: PoolState, terms: Terms
) -> None:
    """Fill ``terms`` for request ``row``."""
    tokens_in = table.input_tokens[row]
    max_tokens = float(table.max_tokens[row])
    # Fields are taken out of their tuples before the loop: each access would count a reference.
    model, price_in, price_out = shape.model, shape.price_in_usd, shape.price_out_usd
    max_model_len, alive = shape.max_model_len, state.alive
    length_of, quality_of = table.length_tokens[row], table.quality[row]
    queued, ttft_s, latency_s, cost, quality, possible = terms
    for i in range(len(tpot_s)):
        length = min(length_of[model[i]], max_tokens)
        possible[i] = can_hold(alive[i], tokens_in, max_model_len[i])
        latency_s[i] = ttft_s[i] + tpot_s[i] * (queued[i] + length)
        cost[i] = tokens_in * price_in[i] + length * price_out[i]
        quality[i] = quality_of[model[i]]


@njit(cache=True, error_model="numpy")
def _highest_score(
    terms: Terms,
    budget_usd: float,
    weights: Floats,
    minmax_quality: bool,
    ties_by_latency: bool,
    state: PoolState,
) -> int:
    """Argmax of Eq. 1 over the possible candidates within budget; −1 when there is none."""
    _, _, latency_s, cost, quality, possible = terms
    max_latency, max_cost = 0.0, 0.0
    low, high = np.inf, -np.inf
    for i in range(len(quality)):
        if possible[i] and cost[i] <= budget_usd:
            max_latency = max(max_latency, latency_s[i])
            max_cost = max(max_cost, cost[i])
            low = min(low, quality[i])
            high = max(high, quality[i])
    # A maximum of zero means that every term is zero; 0/1 is then the right ratio.
    max_latency = max_latency if max_latency > 0.0 else 1.0
    max_cost = max_cost if max_cost > 0.0 else 1.0
    spread = high - low if high > low else 1.0
    best, best_score = -1, -np.inf
    for i in range(len(quality)):
        if not (possible[i] and cost[i] <= budget_usd):
            continue
        q = (quality[i] - low) / spread if minmax_quality else quality[i]
        score = weights[0] * q
        score += weights[1] * (1.0 - latency_s[i] / max_latency)
        score += weights[2] * (1.0 - cost[i] / max_cost)
        if score == best_score and ties_by_latency and latency_s[i] != latency_s[best]:
            first = latency_s[i] < latency_s[best]
        else:
            first = score > best_score or (score == best_score and breaks_tie(i, best, state))
        if first:
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


@njit(cache=True, error_model="numpy")
def assign_batch(
    requests: Ints,
    table: RequestTable,
    shape: PoolShape,
    tpot_s: Floats,
    ttft_s: Floats,
    weights: Floats,
    minmax_quality: bool,
    ties_by_latency: bool,
    sequence: int,
    state: PoolState,
) -> tuple[Ints, Ints, Floats, Floats]:
    """Algorithm 1 over rows ``requests`` of ``table`` in the order given; updates ``state``.

    Weights are (quality, latency, cost). ``ttft_s`` (I,) takes the place of the queueing term; empty, it
    does not. Returns instance (−1: nobody can hold the prompt), cap on
    the output, predicted length and predicted latency of each request, all (B,).
    """
    n, n_instances = len(requests), len(shape.model)
    scratch = np.zeros((5, n_instances))
    queues = len(ttft_s) == 0
    terms = Terms(
        scratch[0], scratch[1], scratch[2], scratch[3], scratch[4], np.zeros(n_instances, dtype=np.bool_)
    )
    for i in range(n_instances):
        if queues:
            terms.queued_tokens[i] = _queued_tokens(i, shape, state)
        else:
            terms.ttft_s[i] = ttft_s[i]
    instance, cap = np.full(n, -1), np.zeros(n, dtype=np.int64)
    length, latency_s = np.zeros(n), np.full(n, np.nan)
    for position in range(n):
        row = requests[position]
        tokens_in, budget = table.input_tokens[row], table.budget_usd[row]
        _price(row, table, shape, tpot_s, state, terms)
        best = _highest_score(terms, budget, weights, minmax_quality, ties_by_latency, state)
        if best < 0:
            best = _cheapest(terms, state)
        if best < 0:
            continue
        instance[position] = best
        cap[position] = cap_output(best, tokens_in, table.max_tokens[row], budget, shape)
        length[position] = min(table.length_tokens[row, shape.model[best]], float(table.max_tokens[row]))
        latency_s[position] = terms.latency_s[best]
        book(best, tokens_in, length[position], sequence + position, shape, state)
        if queues:
            terms.queued_tokens[best] = _queued_tokens(best, shape, state)
    return instance, cap, length, latency_s
