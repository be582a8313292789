"""The end of a step: tokens reach their requests, and finished ones leave with their blocks and seat."""

from __future__ import annotations

import numpy as np

from rbx.compiled import bare_njit
from rbx.engine import instance_columns as inst
from rbx.engine import request_columns as req
from rbx.engine.batch_formation import release
from rbx.engine.queues import count_waiting, remove_after
from rbx.engine.state import EngineState


@bare_njit
def end_step(state: EngineState, i: int) -> None:
    """Close the running step of instance ``i``; the next batch is due at the same moment."""
    counts, times = state.counts, state.times
    counts[i, inst.STEPPING] = 0
    times[i, inst.FORM_S] = times[i, inst.END_S]
    if counts[i, inst.STALE]:
        _deliver_to_preempted(state, i)
    if counts[i, inst.STARTED] >= counts[i, inst.NEXT_DELIVERY]:
        _deliver_to_running(state, i)


@bare_njit
def _deliver_to_running(state: EngineState, i: int) -> None:
    counts, slots, running, due = state.counts, state.slots, state.running[i], state.due[i]
    batch, end_s = counts[i, inst.STARTED], state.times[i, inst.END_S]
    held, kept = counts[i, inst.RUNNING], 0
    while kept < held and due[kept] != batch:
        kept += 1
    for k in range(kept, held):
        next_batch = due[k]
        if next_batch == batch:
            slot = running[k]
            _note_first_token(state, slot, end_s)
            next_batch = slots[slot, req.LAST_BATCH]
            if next_batch == batch:
                release(state, i, slot)
                _finish(state, i, slot, end_s)
                continue
        running[kept] = running[k]
        due[kept] = next_batch
        kept += 1
    following = np.int64(req.NEVER)
    for k in range(kept):
        following = min(following, due[k])
    counts[i, inst.RUNNING] = kept
    counts[i, inst.NEXT_DELIVERY] = following


@bare_njit
def _deliver_to_preempted(state: EngineState, i: int) -> None:
    """Requests preempted while this step ran are at the front of the queue and still get its token."""
    counts, slots = state.counts, state.slots
    batch, end_s = counts[i, inst.STARTED], state.times[i, inst.END_S]
    before, slot = -1, counts[i, inst.WAITING_HEAD]
    for _ in range(counts[i, inst.STALE]):
        after = slots[slot, req.NEXT]
        _note_first_token(state, slot, end_s)
        if slots[slot, req.LAST_BATCH] == batch:
            remove_after(state, i, before, slot)
            _finish(state, i, slot, end_s)
        else:
            count_waiting(state, i, slot, -1)
            slots[slot, req.KEPT] += 1
            slots[slot, req.TOKEN_BATCH] = req.NEVER
            count_waiting(state, i, slot, 1)
            before = slot
        slot = after
    counts[i, inst.STALE] = 0


@bare_njit
def _note_first_token(state: EngineState, slot: int, end_s: float) -> None:
    if np.isnan(state.slot_times[slot, req.FIRST_TOKEN_S]):
        state.slot_times[slot, req.FIRST_TOKEN_S] = end_s


@bare_njit
def _finish(state: EngineState, i: int, slot: int, end_s: float) -> None:
    state.slots[slot, req.STATUS] = req.FINISHED
    state.slot_times[slot, req.DONE_S] = end_s
    state.counts[i, inst.FINISHED] += 1
    state.times[i, inst.LAST_DONE_S] = end_s
