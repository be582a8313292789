"""A batch placed as a whole: the matching of the largest total score, in place of one request after another.

RouteBalance (arXiv 2606.17949) places greedily and compares that offline with a Hungarian matching of each
batch. Here every request is scored by Eq. 1 on the state at the start of the batch, and an instance takes
no more than its even share of the batch, ⌈B ÷ instances⌉ requests, or the fewest more with which everybody
has a place. Without that bound the matching would be each request's own best. Of equally good placements one
is taken that goes to the shorter queues, then to the least recently used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbx.policy.base import NO_INSTANCE
from rbx.policy.candidates import affordable, book, cap_output, possible
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Scores(NamedTuple):
    """Eq. 1 of B requests on I instances, −inf where one can't go; predicted length and latency (B, I)."""

    score: Floats
    length_tokens: Floats
    latency_s: Floats


def batch_scores(
    requests: Ints,
    table: RequestTable,
    shape: PoolShape,
    tpot_s: Floats,
    before_s: Floats,
    weights: Floats,
    minmax_quality: bool,
    state: PoolState,
) -> Scores:
    """Eq. 1 as ``rbx.policy.objective`` has it, nothing booked in between.

    ``before_s`` (I,) is the time before the first token; empty, it is d/b steps where no slot is free.
    """
    free = (state.running < shape.max_num_seqs) & (state.waiting == 0)
    queued = np.where(free, 0.0, state.pending_decode_tokens / np.maximum(state.running, 1))
    steps = queued if len(before_s) == 0 else np.zeros_like(queued)
    before = np.zeros_like(queued) if len(before_s) == 0 else before_s
    length = np.minimum(table.length_tokens[requests][:, shape.model], table.max_tokens[requests, None])
    latency_s = before + tpot_s * (steps + length)
    tokens_in = table.input_tokens[requests]
    cost = tokens_in[:, None] * shape.price_in_usd + length * shape.price_out_usd
    quality = table.quality[requests][:, shape.model]
    score = np.full(length.shape, -np.inf)
    for at in range(len(requests)):
        there = affordable(
            possible(int(tokens_in[at]), shape, state), cost[at], float(table.budget_usd[requests[at]])
        )
        if not there.any():
            continue
        q = quality[at, there]
        if minmax_quality:
            q = (q - q.min()) / (np.ptp(q) or 1.0)
        value = weights[0] * q
        value += weights[1] * (1.0 - latency_s[at, there] / (latency_s[at, there].max() or 1.0))
        score[at, there] = value + weights[2] * (1.0 - cost[at, there] / (cost[at, there].max() or 1.0))
    return Scores(score, length, latency_s)


def matched(score: Floats, preferred: Ints) -> Ints:
    """The instance of each request (B,), −1 where it can go nowhere; see the module for the bound.

    ``preferred`` (I,) are the instances in the order in which they go first where that costs nothing.
    """
    from scipy.optimize import linear_sum_assignment

    chosen = np.full(len(score), NO_INSTANCE)
    placeable = np.flatnonzero(np.isfinite(score).any(axis=1))
    if not len(placeable):
        return chosen
    offered = score[placeable]
    # Of columns that are equal the solver takes the first that is free.
    open_ = preferred[np.isfinite(offered[:, preferred]).any(axis=0)]
    offered = offered[:, open_]
    # Below any sum of real scores, so that it is taken only where nothing else is left.
    forbidden = -1e6
    for each in range(-(-len(placeable) // len(open_)), len(placeable) + 1):
        slots = np.tile(np.where(np.isfinite(offered), offered, forbidden), each)
        rows, columns = linear_sum_assignment(slots, maximize=True)
        if len(rows) == len(placeable) and (slots[rows, columns] > forbidden).all():
            chosen[placeable[rows]] = open_[columns % len(open_)]
            return chosen
    raise AssertionError("as many slots as requests place everybody")


def match_batch(
    requests: Ints,
    table: RequestTable,
    shape: PoolShape,
    tpot_s: Floats,
    before_s: Floats,
    weights: Floats,
    minmax_quality: bool,
    sequence: int,
    state: PoolState,
) -> tuple[Ints, Ints, Floats, Floats]:
    """Place rows ``requests`` of ``table`` together and update ``state``; answers as ``assign_batch``."""
    scores = batch_scores(requests, table, shape, tpot_s, before_s, weights, minmax_quality, state)
    preferred = np.lexsort((state.last_used, state.running + state.waiting))
    instance = matched(scores.score, preferred)
    n = len(requests)
    cap, length, latency_s = np.zeros(n, dtype=np.int64), np.zeros(n), np.full(n, np.nan)
    for at, best in enumerate(instance.tolist()):
        if best == NO_INSTANCE:
            continue
        row = requests[at]
        tokens_in = table.input_tokens[row]
        cap[at] = cap_output(best, tokens_in, table.max_tokens[row], table.budget_usd[row], shape)
        length[at], latency_s[at] = scores.length_tokens[at, best], scores.latency_s[at, best]
        book(best, tokens_in, length[at], sequence + at, shape, state)
    return instance, cap, length, latency_s
