"""Virtual time: instances walk from step boundary to step boundary, or leap over identical ones.

At a boundary the scheduler delivers the tokens of the step that ended, takes in what has arrived, starts
the batch formed before and, under asynchronous scheduling, forms one more ahead (vLLM 0.32,
``EngineCore.step_with_batch_queue``: a request that arrives during step n is in batch n + 2 at the
earliest). An idle instance starts at once. Nothing but batches takes time.

A stop at time t is invisible in the results: a step that ends at t has ended, but the batch that follows
is formed only when time moves past t, so that it sees every arrival at t; and a run of identical decode
steps is always priced from its own first step, however often the walk was interrupted within it.
"""

from __future__ import annotations

import numpy as np

from rbx.compiled import bare_njit
from rbx.engine import instance_columns as inst
from rbx.engine import request_columns as req
from rbx.engine.batch_formation import form_batch
from rbx.engine.delivery import end_step
from rbx.engine.queues import next_arrival_s, receive
from rbx.engine.state import EngineState
from rbx.engine.step_time import decode_run_s, decode_steps_within, step_s


@bare_njit
def advance_all(state: EngineState, until_s: float) -> None:
    """Bring every instance to ``until_s``."""
    for i in range(len(state.counts)):
        _walk(state, i, until_s, False)


@bare_njit
def drain_all(state: EngineState, clock_s: float) -> float:
    """Run until every submitted request is finished; returns the time of the last one, or the clock."""
    for i in range(len(state.counts)):
        _walk(state, i, np.inf, True)
        if state.counts[i, inst.FINISHED] > 0:
            clock_s = max(clock_s, state.times[i, inst.LAST_DONE_S])
    advance_all(state, clock_s)
    return clock_s


@bare_njit
def run_to_first_token(state: EngineState, i: int, slot: int, until_s: float, last_step: int) -> None:
    """Run instance ``i`` until request ``slot`` has its first token.

    Gives up before the first step that ends after ``until_s``, and once a step beyond number
    ``last_step`` has started.
    """
    counts, times, slot_times = state.counts, state.times, state.slot_times
    while np.isnan(slot_times[slot, req.FIRST_TOKEN_S]) and counts[i, inst.STARTED] <= last_step:
        if counts[i, inst.STEPPING]:
            _leap(state, i, until_s)
            if times[i, inst.END_S] > until_s:
                return
            end_step(state, i)
        else:
            now_s = times[i, inst.FORM_S]
            if now_s == np.inf:
                now_s = next_arrival_s(state, i)
            if now_s >= until_s:
                return
            cross_boundary(state, i, now_s)


@bare_njit
def _walk(state: EngineState, i: int, until_s: float, to_last_request: bool) -> None:
    # The body is that of ``run_to_first_token``: as a function of its own it makes a drain 12 % slower.
    counts, times = state.counts, state.times
    while not (to_last_request and counts[i, inst.FINISHED] == counts[i, inst.SUBMITTED]):
        if counts[i, inst.STEPPING]:
            _leap(state, i, until_s)
            if times[i, inst.END_S] > until_s:
                break
            end_step(state, i)
        else:
            now_s = times[i, inst.FORM_S]
            if now_s == np.inf:
                now_s = next_arrival_s(state, i)
            if now_s >= until_s:
                break
            cross_boundary(state, i, now_s)
    receive(state, i, until_s)


@bare_njit
def cross_boundary(state: EngineState, i: int, now_s: float) -> None:
    """Between two steps: take in arrivals, start the batch that is due, form one ahead if asynchronous."""
    counts, times = state.counts, state.times
    receive(state, i, now_s)
    if counts[i, inst.FORMED] == counts[i, inst.STARTED]:
        form_batch(state, i, now_s)
    if counts[i, inst.FORMED] == counts[i, inst.STARTED]:
        times[i, inst.BUSY_S] += now_s - times[i, inst.BUSY_SINCE_S]
        times[i, inst.BUSY_SINCE_S] = np.inf
        times[i, inst.FORM_S] = np.inf
        return
    times[i, inst.BUSY_SINCE_S] = min(times[i, inst.BUSY_SINCE_S], now_s)
    _start_step(state, i, now_s)
    if counts[i, inst.ASYNC]:
        form_batch(state, i, now_s)


@bare_njit
def _start_step(state: EngineState, i: int, now_s: float) -> None:
    """Start the batch formed last; it prolongs the run if it is the same decodes, one token further.

    Newcomers enter by a batch with prefill, so two batches without any and of one size are the same.
    """
    counts, times = state.counts, state.times
    decodes, tokens = counts[i, inst.AHEAD_DECODES], counts[i, inst.AHEAD_PREFILL_TOKENS]
    same = decodes == counts[i, inst.RUN_DECODES]
    if same and tokens == 0 and counts[i, inst.RUN_PREFILL_TOKENS] == 0:
        counts[i, inst.RUN_STEPS] += 1
    else:
        times[i, inst.RUN_START_S] = now_s
        counts[i, inst.RUN_STEPS] = 1
        counts[i, inst.RUN_DECODES] = decodes
        counts[i, inst.RUN_CONTEXT] = counts[i, inst.AHEAD_CONTEXT]
        counts[i, inst.RUN_PREFILL_TOKENS] = tokens
        counts[i, inst.RUN_PREFILL_SQUARED] = counts[i, inst.AHEAD_PREFILL_SQUARED]
        counts[i, inst.RUN_PREFILL_CROSS] = counts[i, inst.AHEAD_PREFILL_CROSS]
    counts[i, inst.STARTED] += 1
    counts[i, inst.STEPPING] = 1
    _price_step(state, i)


@bare_njit
def _price_step(state: EngineState, i: int) -> None:
    """Set the end of the running step from the start of its run."""
    counts, times = state.counts, state.times
    decodes, context = counts[i, inst.RUN_DECODES], counts[i, inst.RUN_CONTEXT]
    tokens = counts[i, inst.RUN_PREFILL_TOKENS]
    if tokens > 0:
        squared, cross = counts[i, inst.RUN_PREFILL_SQUARED], counts[i, inst.RUN_PREFILL_CROSS]
        length_s = step_s(times[i], decodes, context, tokens, squared, cross)
    else:
        length_s = decode_run_s(times[i], decodes, context, counts[i, inst.RUN_STEPS])
    times[i, inst.END_S] = times[i, inst.RUN_START_S] + length_s


@bare_njit
def _leap(state: EngineState, i: int, until_s: float) -> None:
    """Pass over boundaries before ``until_s`` at which nothing happens but one more decode step each."""
    counts = state.counts
    decodes = counts[i, inst.RUN_DECODES]
    ahead = counts[i, inst.FORMED] - counts[i, inst.STARTED]
    if (
        counts[i, inst.RUN_PREFILL_TOKENS] > 0
        or counts[i, inst.DECODES] != decodes
        or (ahead and (counts[i, inst.AHEAD_PREFILL_TOKENS] > 0 or counts[i, inst.AHEAD_DECODES] != decodes))
        or (counts[i, inst.WAITING] > 0 and not counts[i, inst.BLOCKED])
    ):
        return
    steps = min(
        counts[i, inst.NEXT_DELIVERY] - counts[i, inst.STARTED],
        counts[i, inst.NEXT_ENDING] - 1 - counts[i, inst.FORMED],
    )
    limit_s = until_s
    if counts[i, inst.WAITING] == 0:  # behind a blocked head an arrival changes nothing
        limit_s = min(limit_s, next_arrival_s(state, i))
    if steps <= 0 or state.times[i, inst.END_S] >= limit_s:
        return
    steps = _steps_with_blocks(state, i, steps)
    steps = min(steps, _boundaries_before(state, i, steps, limit_s))
    if steps <= 0:
        return
    counts[i, inst.FREE_BLOCKS] -= _blocks_taken(state, i, steps)
    counts[i, inst.STARTED] += steps
    counts[i, inst.FORMED] += steps
    counts[i, inst.RUN_STEPS] += steps
    counts[i, inst.CONTEXT] += steps * decodes
    counts[i, inst.AHEAD_CONTEXT] += steps * decodes
    _price_step(state, i)


@bare_njit
def _boundaries_before(state: EngineState, i: int, at_most: int, limit_s: float) -> int:
    """How many of the next ``at_most`` ends of steps of the run come before ``limit_s``."""
    counts, times = state.counts, state.times
    decodes, context = counts[i, inst.RUN_DECODES], counts[i, inst.RUN_CONTEXT]
    anchor_s, walked = times[i, inst.RUN_START_S], counts[i, inst.RUN_STEPS]
    if anchor_s + decode_run_s(times[i], decodes, context, walked + at_most - 1) < limit_s:
        return at_most
    within = decode_steps_within(times[i], decodes, context, anchor_s, limit_s)
    return int(within - walked + 1)


@bare_njit
def _blocks_taken(state: EngineState, i: int, steps: int) -> int:
    """Blocks that the next ``steps`` batches of the present decodes need."""
    counts, phases = state.counts, state.phases
    block_size = counts[i, inst.BLOCK_SIZE]
    blocks = steps // block_size * counts[i, inst.DECODES]
    turn = counts[i, inst.FORMED] % block_size
    for _ in range(steps % block_size):
        turn = turn + 1 if turn + 1 < block_size else 0
        blocks += phases[i, turn]
    return int(blocks)


@bare_njit
def _steps_with_blocks(state: EngineState, i: int, at_most: int) -> int:
    """How many of the next ``at_most`` batches find their blocks; each sequence takes one per block size."""
    counts, phases = state.counts, state.phases
    free, decodes = counts[i, inst.FREE_BLOCKS], counts[i, inst.DECODES]
    block_size = counts[i, inst.BLOCK_SIZE]
    if (at_most // block_size + 1) * decodes <= free:
        return at_most
    steps = free // decodes * block_size
    free %= decodes
    turn = (counts[i, inst.FORMED] + 1) % block_size
    while phases[i, turn] <= free:  # ends within one block size: together they take `decodes` blocks
        free -= phases[i, turn]
        turn = turn + 1 if turn + 1 < block_size else 0
        steps += 1
    return int(min(steps, at_most))
