"""The two queues of an instance, as linked lists of slots: submitted (by arrival) and waiting (by turn)."""

from __future__ import annotations

import numpy as np

from rbx.compiled import bare_njit
from rbx.engine import instance_columns as inst
from rbx.engine import request_columns as req
from rbx.engine.state import EngineState


@bare_njit
def enqueue_arrival(state: EngineState, slot: int) -> None:
    """Put a request in order of arrival; equal times keep the order of submission.

    Constant time when arrivals are submitted in order, else a walk over those still to come.
    """
    counts, slots, at_s = state.counts, state.slots, state.slot_times
    i = slots[slot, req.INSTANCE]
    counts[i, inst.SUBMITTED] += 1
    tail = counts[i, inst.PENDING_TAIL]
    before, after = tail, -1
    if tail >= 0 and at_s[tail, req.AT_S] > at_s[slot, req.AT_S]:
        before, after = -1, counts[i, inst.PENDING_HEAD]
        while at_s[after, req.AT_S] <= at_s[slot, req.AT_S]:
            before, after = after, slots[after, req.NEXT]
    slots[slot, req.NEXT] = after
    if before < 0:
        counts[i, inst.PENDING_HEAD] = slot
    else:
        slots[before, req.NEXT] = slot
    if after < 0:
        counts[i, inst.PENDING_TAIL] = slot


@bare_njit
def next_arrival_s(state: EngineState, i: int) -> float:
    """When the next request reaches instance ``i``; inf if none is on its way."""
    head = state.counts[i, inst.PENDING_HEAD]
    if head < 0:
        return float("inf")
    return float(state.slot_times[head, req.AT_S])


@bare_njit
def receive(state: EngineState, i: int, until_s: float) -> None:
    """Move requests that have arrived by ``until_s`` to the end of the waiting queue.

    May run before the step boundary at which the scheduler looks: no batch is formed in between. The
    first one to reach an idle instance makes a batch due.
    """
    counts, times, slots, slot_times = state.counts, state.times, state.slots, state.slot_times
    slot = counts[i, inst.PENDING_HEAD]
    while slot >= 0 and slot_times[slot, req.AT_S] <= until_s:
        following = slots[slot, req.NEXT]
        counts[i, inst.RECEIVED] += 1
        if not counts[i, inst.STEPPING] and times[i, inst.FORM_S] == np.inf:
            times[i, inst.FORM_S] = slot_times[slot, req.AT_S]
        slots[slot, req.STATUS] = req.WAITING
        slots[slot, req.NEXT] = -1
        tail = counts[i, inst.WAITING_TAIL]
        if tail < 0:
            counts[i, inst.WAITING_HEAD] = slot
        else:
            slots[tail, req.NEXT] = slot
        counts[i, inst.WAITING_TAIL] = slot
        count_waiting(state, i, slot, 1)
        slot = following
    counts[i, inst.PENDING_HEAD] = slot
    if slot < 0:
        counts[i, inst.PENDING_TAIL] = -1


@bare_njit
def push_front(state: EngineState, i: int, slot: int) -> None:
    """Put a preempted request before all waiting ones."""
    counts, slots = state.counts, state.slots
    slots[slot, req.STATUS] = req.WAITING
    slots[slot, req.NEXT] = counts[i, inst.WAITING_HEAD]
    if counts[i, inst.WAITING_HEAD] < 0:
        counts[i, inst.WAITING_TAIL] = slot
    counts[i, inst.WAITING_HEAD] = slot
    count_waiting(state, i, slot, 1)


@bare_njit
def remove_after(state: EngineState, i: int, before: int, slot: int) -> None:
    """Take ``slot`` out of the waiting queue; ``before`` stands in front of it, −1 if it is the head."""
    counts, slots = state.counts, state.slots
    after = slots[slot, req.NEXT]
    if before < 0:
        counts[i, inst.WAITING_HEAD] = after
    else:
        slots[before, req.NEXT] = after
    if after < 0:
        counts[i, inst.WAITING_TAIL] = before
    count_waiting(state, i, slot, -1)


@bare_njit
def count_waiting(state: EngineState, i: int, slot: int, sign: int) -> None:
    """Add a waiting request to the sums of its instance, or take it out (``sign`` −1)."""
    counts, slots = state.counts, state.slots
    kept = slots[slot, req.KEPT]
    counts[i, inst.WAITING] += sign
    counts[i, inst.WAITING_PREFILL_TOKENS] += sign * (slots[slot, req.PROMPT_TOKENS] + kept)
    counts[i, inst.WAITING_DECODE_TOKENS] += sign * max(0, slots[slot, req.PREDICTED_TOKENS] - kept)
