"""Checked entry of requests into the state; nothing is changed if any request is refused."""

from __future__ import annotations

import numpy as np

from rbx.compiled import njit
from rbx.engine import instance_columns as inst
from rbx.engine import request_columns as req
from rbx.engine.queues import enqueue_arrival
from rbx.engine.state import EngineState, Floats, Ints

INSTANCE, TIME, PROMPT, OUTPUT, PREDICTED, BY_LENGTH, CAP = range(7)
ACCEPTED, BAD_INSTANCE, BAD_TIME, BAD_TOKENS, TOO_LONG, BAD_CAP = range(6)
NO_CAP = 0


@njit(cache=True)
def fault_of(state: EngineState, clock_s: float, requests: Ints, at_s: Floats) -> tuple[int, int]:
    """First fault among requests (7, n; columns as above, TIME unused) and its position."""
    counts = state.counts
    for n in range(len(at_s)):
        i = requests[INSTANCE, n]
        if i < 0 or i >= len(counts):
            return BAD_INSTANCE, n
        if not at_s[n] >= clock_s or at_s[n] == np.inf:
            return BAD_TIME, n
        prompt, output = requests[PROMPT, n], requests[OUTPUT, n]
        if prompt < 1 or output < 1 or requests[PREDICTED, n] < 1:
            return BAD_TOKENS, n
        if prompt + output > counts[i, inst.MAX_MODEL_LEN]:
            return TOO_LONG, n
        cap = requests[CAP, n]
        if cap != NO_CAP and (cap < output or (requests[BY_LENGTH, n] != 0 and cap != output)):
            return BAD_CAP, n
    return ACCEPTED, -1


@njit(cache=True)
def enter(state: EngineState, first_slot: int, requests: Ints, at_s: Floats, order: Ints) -> None:
    """Give accepted requests the slots from ``first_slot`` on and queue them as arrivals in ``order``."""
    slots = state.slots
    for n in range(len(at_s)):
        slot = first_slot + n
        prompt, output = requests[PROMPT, n], requests[OUTPUT, n]
        room = state.counts[requests[INSTANCE, n], inst.MAX_MODEL_LEN]
        slots[slot, req.INSTANCE] = requests[INSTANCE, n]
        slots[slot, req.PROMPT_TOKENS] = prompt
        slots[slot, req.OUTPUT_TOKENS] = output
        slots[slot, req.PREDICTED_TOKENS] = requests[PREDICTED, n]
        # An answer that fills the context ends by a limit too, whatever its last token is.
        slots[slot, req.BY_LENGTH] = requests[BY_LENGTH, n] != 0 or prompt + output == room
        known = output if slots[slot, req.BY_LENGTH] else room - prompt
        slots[slot, req.CAP] = known if requests[CAP, n] == NO_CAP else min(requests[CAP, n], room - prompt)
        slots[slot, req.TOKEN_BATCH] = req.NEVER
        state.slot_times[slot, req.AT_S] = at_s[n]
    for n in order:
        enqueue_arrival(state, first_slot + n)
