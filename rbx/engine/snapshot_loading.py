"""A snapshot put back into the engine's own state, to be run from there.

The newest started batch is numbered 1 if it runs, 0 if not. Of a decoding request the engine needs
kept − token batch and last batch − token batch alone, so it is entered as if it had been admitted anew
with all its generated tokens.
"""

from __future__ import annotations

import numpy as np

from rbx.compiled import bare_njit, njit
from rbx.engine import instance_columns as inst
from rbx.engine import request_columns as req
from rbx.engine import snapshot_columns as snap
from rbx.engine.batch_formation import computed_tokens, phase
from rbx.engine.queues import count_waiting
from rbx.engine.state import EngineState, Floats, Ints
from rbx.engine.step_time import step_s


@njit(cache=True)
def empty_instance(limits: Ints, coefficients: Floats, capacity: int) -> EngineState:
    """One idle instance with room for ``capacity`` requests, none of them entered."""
    counts = np.zeros((1, inst.N_COUNTS), dtype=np.int64)
    times = np.zeros((1, inst.N_TIMES))
    counts[0, : len(limits)] = limits
    times[0, : len(coefficients)] = coefficients
    for column in (inst.PENDING_HEAD, inst.PENDING_TAIL, inst.WAITING_HEAD, inst.WAITING_TAIL, inst.PARTIAL):
        counts[0, column] = -1
    counts[0, inst.NEXT_DELIVERY] = req.NEVER
    counts[0, inst.NEXT_ENDING] = req.NEVER
    times[0, inst.FORM_S] = np.inf
    times[0, inst.BUSY_SINCE_S] = np.inf
    return EngineState(
        counts,
        times,
        np.empty((1, limits[inst.MAX_SEQS]), dtype=np.int64),
        np.empty((1, limits[inst.MAX_SEQS]), dtype=np.int64),
        np.zeros((1, limits[inst.BLOCK_SIZE]), dtype=np.int64),
        np.empty((capacity, req.N_SLOTS), dtype=np.int64),
        np.empty((capacity, req.N_SLOT_TIMES)),
    )


@bare_njit
def enter_request(state: EngineState, slot: int, row: Ints, total_tokens: int) -> None:
    """Fill a slot with one row of a snapshot's requests that will give ``total_tokens`` in all."""
    slots = state.slots
    slots[slot, req.INSTANCE] = 0
    slots[slot, req.PROMPT_TOKENS] = row[snap.PROMPT]
    slots[slot, req.OUTPUT_TOKENS] = total_tokens
    slots[slot, req.PREDICTED_TOKENS] = total_tokens
    slots[slot, req.BY_LENGTH] = total_tokens >= row[snap.CAP]
    slots[slot, req.STATUS] = req.PENDING
    slots[slot, req.NEXT] = -1
    slots[slot, req.COMPUTED] = row[snap.COMPUTED]
    slots[slot, req.KEPT] = row[snap.GENERATED]
    slots[slot, req.TOKEN_BATCH] = req.NEVER
    slots[slot, req.LAST_BATCH] = req.NEVER
    slots[slot, req.PREEMPTIONS] = 0
    slots[slot, req.CACHED] = row[snap.CACHED]
    slots[slot, req.CAP] = row[snap.CAP]
    # Only the probe's first token matters: with the others' noted, their prefills end without a scan.
    state.slot_times[slot] = 0.0


@bare_njit
def load(
    state: EngineState,
    stamp_s: float,
    free_blocks: int,
    running: int,
    requests: Ints,
    totals: Ints,
    step_start_s: Floats,
    steps: Ints,
) -> None:
    """Fill the only instance of an empty state; request n of the snapshot gets slot n.

    ``totals`` (N,) is how many tokens each request gives in all, at least one more than it has.
    """
    counts = state.counts
    stepping = len(step_start_s) > 0 and not np.isnan(step_start_s[0])
    counts[0, inst.FREE_BLOCKS] = free_blocks
    counts[0, inst.STARTED] = stepping
    counts[0, inst.STEPPING] = stepping
    counts[0, inst.FORMED] = len(step_start_s)
    for n in range(len(requests)):
        enter_request(state, n, requests[n], totals[n])
        if n < running:
            _load_running(state, n, requests[n])
        else:
            _load_waiting(state, n, requests[n])
    if stepping:
        _load_running_step(state, stamp_s, step_start_s[0], steps[0])
    elif len(requests) > 0 or len(step_start_s) > 0:
        state.times[0, inst.FORM_S] = stamp_s
    if len(step_start_s) > int(stepping):
        make_up = steps[int(stepping)]
        counts[0, inst.AHEAD_DECODES] = make_up[snap.DECODES]
        counts[0, inst.AHEAD_CONTEXT] = make_up[snap.CONTEXT]
        counts[0, inst.AHEAD_PREFILL_TOKENS] = make_up[snap.PREFILL_TOKENS]
        counts[0, inst.AHEAD_PREFILL_SQUARED] = make_up[snap.PREFILL_SQUARED]
        counts[0, inst.AHEAD_PREFILL_CROSS] = make_up[snap.PREFILL_CROSS]


@bare_njit
def _load_running(state: EngineState, slot: int, row: Ints) -> None:
    counts, slots = state.counts, state.slots
    state.running[0, slot] = slot
    state.due[0, slot] = req.NEVER
    counts[0, inst.RUNNING] += 1
    if row[snap.PREFILLING]:
        slots[slot, req.STATUS] = req.PREFILLING
        counts[0, inst.PARTIAL] = slot
        return
    formed = counts[0, inst.FORMED]
    if row[snap.YIELDS] and not row[snap.YIELDS_AHEAD] and formed == 2:
        # Left out of the batch ahead: its end is known to come with the running step.
        slots[slot, req.STATUS] = req.ENDING
        slots[slot, req.TOKEN_BATCH] = 1
        slots[slot, req.LAST_BATCH] = 1
        state.due[0, slot] = counts[0, inst.NEXT_DELIVERY] = 1
        return
    first = formed - row[snap.YIELDS] - row[snap.YIELDS_AHEAD] + 1
    last = first + slots[slot, req.OUTPUT_TOKENS] - row[snap.GENERATED] - 1
    slots[slot, req.STATUS] = req.DECODING
    slots[slot, req.TOKEN_BATCH] = first
    slots[slot, req.LAST_BATCH] = last
    counts[0, inst.DECODES] += 1
    counts[0, inst.CONTEXT] += computed_tokens(state, slot, formed)
    state.phases[0, phase(state, 0, slot)] += 1
    state.due[0, slot] = last
    counts[0, inst.NEXT_DELIVERY] = min(counts[0, inst.NEXT_DELIVERY], last)
    if counts[0, inst.ASYNC] and slots[slot, req.BY_LENGTH]:
        counts[0, inst.NEXT_ENDING] = min(counts[0, inst.NEXT_ENDING], last + 1)


@bare_njit
def _load_waiting(state: EngineState, slot: int, row: Ints) -> None:
    counts, slots = state.counts, state.slots
    slots[slot, req.STATUS] = req.WAITING
    if counts[0, inst.WAITING_TAIL] < 0:
        counts[0, inst.WAITING_HEAD] = slot
    else:
        slots[counts[0, inst.WAITING_TAIL], req.NEXT] = slot
    counts[0, inst.WAITING_TAIL] = slot
    count_waiting(state, 0, slot, 1)
    if row[snap.YIELDS]:  # preempted while the running step computes a token of it
        counts[0, inst.STALE] += 1
        slots[slot, req.TOKEN_BATCH] = counts[0, inst.STARTED]
        remaining = slots[slot, req.OUTPUT_TOKENS] - row[snap.GENERATED]
        slots[slot, req.LAST_BATCH] = counts[0, inst.STARTED] + remaining - 1


@bare_njit
def _load_running_step(state: EngineState, stamp_s: float, start_s: float, make_up: Ints) -> None:
    """A step that is overdue ends at the stamp; it and the run after it are then shifted."""
    counts, times = state.counts, state.times
    decodes, context = make_up[snap.DECODES], make_up[snap.CONTEXT]
    tokens = make_up[snap.PREFILL_TOKENS]
    squared, cross = make_up[snap.PREFILL_SQUARED], make_up[snap.PREFILL_CROSS]
    length_s = step_s(times[0], decodes, context, tokens, squared, cross)
    counts[0, inst.RUN_STEPS] = 1
    counts[0, inst.RUN_DECODES] = decodes
    counts[0, inst.RUN_CONTEXT] = context
    counts[0, inst.RUN_PREFILL_TOKENS] = tokens
    counts[0, inst.RUN_PREFILL_SQUARED] = squared
    counts[0, inst.RUN_PREFILL_CROSS] = cross
    times[0, inst.RUN_START_S] = max(start_s, stamp_s - length_s)
    times[0, inst.END_S] = max(start_s + length_s, stamp_s)
