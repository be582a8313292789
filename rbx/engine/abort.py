"""A request taken out before its end, as vLLM does when its client leaves.

vLLM 0.32 (``Scheduler.finish_requests``) drops it from its queue and frees its blocks between two
steps, before the next batch is formed. Batches already formed run as they are: a step that it has a
share in takes as long, and its token goes nowhere. As no batch is formed within a step, taking it out at
once changes nothing for the others.
"""

from __future__ import annotations

import numpy as np

from rbx.compiled import bare_njit, njit
from rbx.engine import instance_columns as inst
from rbx.engine import request_columns as req
from rbx.engine.batch_formation import release
from rbx.engine.queues import receive, remove_after
from rbx.engine.state import EngineState


@njit(cache=True)
def take_out(state: EngineState, slot: int, now_s: float) -> bool:
    """End request ``slot`` at ``now_s``; False if it has ended already."""
    slots = state.slots
    if slots[slot, req.STATUS] == req.FINISHED:
        return False
    i = slots[slot, req.INSTANCE]
    receive(state, i, now_s)
    counts = state.counts
    if slots[slot, req.STATUS] == req.PENDING:
        _leave_pending(state, i, slot)
        counts[i, inst.SUBMITTED] -= 1  # as if it had never been sent
    else:
        if slots[slot, req.STATUS] == req.WAITING:
            _leave_waiting(state, i, slot)
        else:
            _leave_running(state, i, slot)
        counts[i, inst.FINISHED] += 1
        counts[i, inst.BLOCKED] = 0
    slots[slot, req.STATUS] = req.FINISHED
    return True


@bare_njit
def _leave_pending(state: EngineState, i: int, slot: int) -> None:
    counts, slots = state.counts, state.slots
    before, at = -1, counts[i, inst.PENDING_HEAD]
    while at != slot:
        before, at = at, slots[at, req.NEXT]
    after = slots[slot, req.NEXT]
    if before < 0:
        counts[i, inst.PENDING_HEAD] = after
    else:
        slots[before, req.NEXT] = after
    if after < 0:
        counts[i, inst.PENDING_TAIL] = before


@bare_njit
def _leave_waiting(state: EngineState, i: int, slot: int) -> None:
    counts, times = state.counts, state.times
    before, at, position = -1, counts[i, inst.WAITING_HEAD], 0
    while at != slot:
        before, at, position = at, state.slots[at, req.NEXT], position + 1
    if position < counts[i, inst.STALE]:
        counts[i, inst.STALE] -= 1
    remove_after(state, i, before, slot)
    if (
        counts[i, inst.WAITING] == 0
        and not counts[i, inst.STEPPING]
        and times[i, inst.BUSY_SINCE_S] == np.inf
    ):
        times[i, inst.FORM_S] = np.inf  # the batch that it made due would be empty


@bare_njit
def _leave_running(state: EngineState, i: int, slot: int) -> None:
    counts, running, due = state.counts, state.running[i], state.due[i]
    release(state, i, slot)
    if counts[i, inst.PARTIAL] == slot:
        counts[i, inst.PARTIAL] = -1
    counts[i, inst.RUNNING] -= 1
    k = 0
    while running[k] != slot:
        k += 1
    while k < counts[i, inst.RUNNING]:
        running[k], due[k] = running[k + 1], due[k + 1]
        k += 1
