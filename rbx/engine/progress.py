"""How far requests have come, and when the next token may come."""

from __future__ import annotations

import numpy as np

from rbx.compiled import njit
from rbx.engine import instance_columns as inst
from rbx.engine import request_columns as req
from rbx.engine.queues import next_arrival_s
from rbx.engine.state import EngineState, Ints


@njit(cache=True)
def output_tokens(state: EngineState, slots_asked: Ints) -> Ints:
    """Output tokens delivered by steps that have ended, (N,); of an aborted request those kept before."""
    counts, slots = state.counts, state.slots
    out = np.empty(len(slots_asked), dtype=np.int64)
    for n in range(len(slots_asked)):
        slot = slots_asked[n]
        i, status = slots[slot, req.INSTANCE], slots[slot, req.STATUS]
        out[n] = slots[slot, req.KEPT]
        if status == req.FINISHED and not np.isnan(state.slot_times[slot, req.DONE_S]):
            out[n] = slots[slot, req.OUTPUT_TOKENS]
        elif status == req.DECODING or status == req.ENDING:
            ended = counts[i, inst.STARTED] - counts[i, inst.STEPPING]
            out[n] += max(0, ended - slots[slot, req.TOKEN_BATCH] + 1)
    return out


@njit(cache=True)
def next_boundary_s(state: EngineState) -> float:
    """The earliest end of a running step, due batch or arrival of any instance; inf if all are idle."""
    earliest_s = np.inf
    for i in range(len(state.counts)):
        if state.counts[i, inst.STEPPING]:
            at_s = state.times[i, inst.END_S]
        else:
            at_s = min(state.times[i, inst.FORM_S], next_arrival_s(state, i))
        earliest_s = min(earliest_s, at_s)
    return float(earliest_s)
