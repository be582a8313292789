"""Dispatchers pick the replica: round robin, shortest queue, random, on the fused path's bookkeeping.

All of them see dead-reckoned load, so a burst inside one batch spreads out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.compiled import njit
from rbx.config.dispatch import Dispatch
from rbx.policy.candidates import book, breaks_tie, can_hold, cap_output
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

DISPATCH_CODES: dict[Dispatch, int] = {"round-robin": 0, "shortest-queue": 1, "random": 2}
_ROUND_ROBIN = DISPATCH_CODES["round-robin"]
_SHORTEST_QUEUE = DISPATCH_CODES["shortest-queue"]


@njit(cache=True)
def _shortest_queue(candidates: Ints, state: PoolState) -> int:
    best = candidates[0]
    for i in candidates[1:]:
        if breaks_tie(i, best, state):
            best = i
    return int(best)


@njit(cache=True)
def dispatch_batch(
    code: int,
    chosen_model: Ints,
    uniform: Floats,
    turn: Ints,
    requests: Ints,
    table: RequestTable,
    shape: PoolShape,
    sequence: int,
    state: PoolState,
) -> tuple[Ints, Ints, Floats]:
    """Assign rows ``requests`` in order to a living instance of their chosen model (−1: any model).

    ``uniform`` (B,) drives the random choice; ``turn`` (M + 1,) holds the round-robin cursors, the
    last one for requests without a chosen model. Returns instance, cap and predicted length (B,).
    """
    n, n_instances = len(requests), len(shape.model)
    instance, cap, length = np.full(n, -1), np.zeros(n, dtype=np.int64), np.zeros(n)
    room = np.empty(n_instances, dtype=np.int64)
    # Fields are taken out of their tuples before the loop: each access would count a reference.
    model, max_model_len, alive = shape.model, shape.max_model_len, state.alive
    for position in range(n):
        row, wanted = requests[position], chosen_model[position]
        tokens_in, budget = table.input_tokens[row], table.budget_usd[row]
        found = 0
        for i in range(n_instances):
            if (wanted < 0 or model[i] == wanted) and can_hold(alive[i], tokens_in, max_model_len[i]):
                room[found] = i
                found += 1
        if found == 0:
            continue
        if code == _ROUND_ROBIN:
            best = room[turn[wanted] % found]  # index −1 is the cursor of "any model"
            turn[wanted] += 1
        elif code == _SHORTEST_QUEUE:
            best = _shortest_queue(room[:found], state)
        else:
            best = room[min(int(uniform[position] * found), found - 1)]
        instance[position] = best
        cap[position] = cap_output(best, tokens_in, table.max_tokens[row], budget, shape)
        length[position] = min(table.length_tokens[row, shape.model[best]], float(table.max_tokens[row]))
        book(best, tokens_in, length[position], sequence + position, shape, state)
    return instance, cap, length
