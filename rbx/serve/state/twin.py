"""The engine model run beside a real engine, in step with the tokens that are seen.

Batches are formed by ``rbx.engine`` alone. What is added here is *when* a step ends: a step that gives a
token to a watched request ends when that token is seen, not when the clock of the model says so; a step
that shows nobody anything ends by the clock. The batch after a seen end is formed only when something
later is known, so that finishes which arrive with the same tokens still free their seats for it.

Every function works on the only instance of a state; ``watched`` (C,) says what is seen of each slot,
``seen`` (C,) is how many tokens it has shown.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.compiled import bare_njit, njit
from rbx.engine import instance_columns as inst
from rbx.engine import request_columns as req
from rbx.engine import snapshot_columns as snap
from rbx.engine.batch_replay import advance_all, cross_boundary
from rbx.engine.delivery import end_step
from rbx.engine.queues import enqueue_arrival, next_arrival_s, receive
from rbx.engine.snapshot_export import batches_in_flight, request_rows
from rbx.engine.snapshot_loading import empty_instance, enter_request, load
from rbx.engine.state import EngineState, Floats, Ints

Watched = NDArray[np.int8]

# What is seen of a slot. A step that would end an answer whose end alone is seen is over when that is seen.
NOTHING, TOKENS, END_ALONE = 0, 1, 2
# More steps than this between two tokens of one request are not replayed: the count is taken as it is.
MAX_FORCED_STEPS = 256
# A request that is this many tokens behind its twin is taken to be behind; fewer may still be on their way.
MAX_LAG_TOKENS = 3


@njit(cache=True)
def start(
    limits: Ints,
    coefficients: Floats,
    capacity: int,
    stamp_s: float,
    free_blocks: int,
    running: int,
    requests: Ints,
    step_start_s: Floats,
    steps: Ints,
) -> EngineState:
    """A twin in the state of a snapshot's fields; request n has slot n, and its cap is its length."""
    state = empty_instance(limits, coefficients, capacity)
    totals = requests[:, snap.CAP].copy()
    load(state, stamp_s, free_blocks, running, requests, totals, step_start_s, steps)
    for n in range(len(requests)):
        state.slots[n, req.PREDICTED_TOKENS] = requests[n, snap.PREDICTED]
        state.slots[n, req.PREEMPTIONS] = requests[n, snap.PREEMPTIONS]
    return state


@bare_njit
def join(state: EngineState, slot: int, row: Ints, at_s: float) -> None:
    """A request reaches the instance at ``at_s``; only its cap or a finish that is seen will end it."""
    enter_request(state, slot, row, row[snap.CAP])
    state.slots[slot, req.PREDICTED_TOKENS] = row[snap.PREDICTED]
    state.slot_times[slot, req.AT_S] = at_s
    enqueue_arrival(state, slot)


@bare_njit
def follow(state: EngineState, watched: Watched, until_s: float) -> None:
    """Go on by the clock to ``until_s``, or to the first end of a step that would be seen."""
    counts, times = state.counts, state.times
    while True:
        if counts[0, inst.STEPPING]:
            if times[0, inst.END_S] > until_s or shows_token(state, watched):
                return
            end_step(state, 0)
        else:
            due_s = times[0, inst.FORM_S]
            if due_s == np.inf:
                due_s = next_arrival_s(state, 0)
            if due_s >= until_s:
                return
            cross_boundary(state, 0, due_s)


@bare_njit
def see_token(
    state: EngineState, watched: Watched, seen: Ints, slot: int, generated_tokens: int, at_s: float
) -> bool:
    """Request ``slot`` has shown its token number ``generated_tokens`` by ``at_s``.

    False if the twin can't have got there: the request has no share in the steps that it forms.
    """
    counts, times = state.counts, state.times
    seen[slot] = generated_tokens
    if given_tokens(state, slot) >= generated_tokens:
        return True
    follow(state, watched, at_s)
    for _ in range(MAX_FORCED_STEPS):
        given = given_tokens(state, slot)
        if given >= generated_tokens:
            return True
        if not counts[0, inst.STEPPING]:
            due_s = times[0, inst.FORM_S]
            if due_s == np.inf:
                due_s = next_arrival_s(state, 0)
            if due_s == np.inf:
                return False
            cross_boundary(state, 0, due_s)
            if not counts[0, inst.STEPPING]:
                return False
        elif _yields(state, slot):
            _end_at(state, at_s if given + 1 == generated_tokens else min(times[0, inst.END_S], at_s))
        elif shows_token(state, watched):
            return False
        else:  # steps that show nothing were shorter than the clock thought
            _end_at(state, min(times[0, inst.END_S], at_s))
    return False


@bare_njit
def see_end(state: EngineState, watched: Watched, at_s: float) -> None:
    """An answer has ended of which no token was seen: a step that should be over by then is."""
    follow(state, watched, at_s)
    if state.counts[0, inst.STEPPING] and state.times[0, inst.END_S] <= at_s:
        _end_at(state, at_s)


@bare_njit
def end_running_step(state: EngineState, at_s: float) -> None:
    """A token was seen that the running step, as the twin has it, does not give: it is over all the same."""
    if state.counts[0, inst.STEPPING]:
        _end_at(state, at_s)


@bare_njit
def leave(state: EngineState, slot: int) -> bool:
    """A decoding request has ended: it is gone now, or at the end of the step that runs.

    False if it is not decoding.
    """
    counts, slots, started = state.counts, state.slots, state.counts[0, inst.STARTED]
    status = slots[slot, req.STATUS]
    if status not in (req.DECODING, req.ENDING):
        return bool(status == req.FINISHED)
    for k in range(counts[0, inst.RUNNING]):
        if state.running[0, k] == slot:
            state.due[0, k] = started
    slots[slot, req.LAST_BATCH] = started
    counts[0, inst.NEXT_DELIVERY] = min(counts[0, inst.NEXT_DELIVERY], started)
    if not counts[0, inst.STEPPING]:
        state.times[0, inst.END_S] = state.times[0, inst.FORM_S]
        end_step(state, 0)  # delivers to whoever is due; the step itself has ended before
    return True


@bare_njit
def given_tokens(state: EngineState, slot: int) -> int:
    """Tokens that the twin has given to a request."""
    counts, slots = state.counts, state.slots
    status = slots[slot, req.STATUS]
    if status == req.FINISHED:
        return int(slots[slot, req.OUTPUT_TOKENS])
    given = slots[slot, req.KEPT]
    if status in (req.DECODING, req.ENDING):
        ended = counts[0, inst.STARTED] - counts[0, inst.STEPPING]
        given += max(0, ended - slots[slot, req.TOKEN_BATCH] + 1)
    return int(given)


@bare_njit
def strays(state: EngineState, watched: Watched, seen: Ints) -> bool:
    """Whether a decoding request has been given more tokens than can still be on their way."""
    for k in range(state.counts[0, inst.RUNNING]):
        slot = state.running[0, k]
        if watched[slot] != TOKENS or state.slots[slot, req.STATUS] == req.PREFILLING:
            continue
        if given_tokens(state, slot) - seen[slot] >= MAX_LAG_TOKENS:
            return True
    return False


@njit(cache=True)
def projection(state: EngineState, watched: Watched, now_s: float, token_delay_s: float) -> EngineState:
    """A copy brought to ``now_s``; what would have been seen ``token_delay_s`` after it was not earlier."""
    copy = EngineState(
        state.counts.copy(),
        state.times.copy(),
        state.running.copy(),
        state.due.copy(),
        state.phases.copy(),
        state.slots.copy(),
        state.slot_times.copy(),
    )
    heard_s = now_s - token_delay_s
    follow(copy, watched, heard_s)
    if token_delay_s > 0.0:
        if copy.counts[0, inst.STEPPING] and copy.times[0, inst.END_S] <= heard_s:
            _end_at(copy, heard_s)
        advance_all(copy, now_s)
    return copy


@njit(cache=True)
def described(state: EngineState, now_s: float) -> tuple[Ints, Ints, int, Floats, Ints]:
    """Fields of a snapshot: requests, their slots, how many run, and the batches in flight.

    Requests that are still on their way stand at the end of the queue.
    """
    receive(state, 0, np.inf)
    rows = request_rows(state, 0, now_s, False)
    starts, steps = batches_in_flight(state, 0)
    running = state.counts[0, inst.RUNNING]
    slots = np.empty(len(rows), dtype=np.int64)
    slots[:running] = state.running[0, :running]
    slot = state.counts[0, inst.WAITING_HEAD]
    for k in range(running, len(rows)):
        slots[k] = slot
        slot = state.slots[slot, req.NEXT]
    return rows, slots, running, starts, steps


@bare_njit
def _yields(state: EngineState, slot: int) -> bool:
    status = state.slots[slot, req.STATUS]
    if status not in (req.DECODING, req.ENDING):
        return False
    return bool(state.slots[slot, req.TOKEN_BATCH] <= state.counts[0, inst.STARTED])


@bare_njit
def shows_token(state: EngineState, watched: Watched) -> bool:
    """Whether the running step gives a token that would be seen, or ends what would be seen to end."""
    for k in range(state.counts[0, inst.RUNNING]):
        slot = state.running[0, k]
        if watched[slot] == NOTHING or not _yields(state, slot):
            continue
        if watched[slot] == TOKENS or given_tokens(state, slot) + 1 >= state.slots[slot, req.OUTPUT_TOKENS]:
            return True
    return False


@bare_njit
def _end_at(state: EngineState, at_s: float) -> None:
    """End the running step at ``at_s``; the next one is priced from there, not from the start of its run."""
    counts, times = state.counts, state.times
    times[0, inst.END_S] = max(at_s, times[0, inst.RUN_START_S])
    end_step(state, 0)
    counts[0, inst.RUN_DECODES] = -1
