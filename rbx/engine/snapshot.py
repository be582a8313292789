"""What a scheduler-side plugin of each instance would report at one moment."""

from __future__ import annotations

import numpy as np

from rbx.compiled import njit
from rbx.engine import instance_columns as inst
from rbx.engine import request_columns as req
from rbx.engine.batch_formation import computed_tokens
from rbx.engine.queues import receive
from rbx.engine.state import EngineState, Ints

RUNNING, WAITING, PREFILL, DECODE, CONTEXT, FREE, TOTAL, RECEIVED = range(8)


@njit(cache=True)
def snapshot(state: EngineState, now_s: float) -> Ints:
    """Counts of every instance at ``now_s``, shape (8, I), in the order of the constants above."""
    counts, slots = state.counts, state.slots
    out = np.empty((8, len(counts)), dtype=np.int64)
    for i in range(len(counts)):
        receive(state, i, now_s)
        delivered = counts[i, inst.STARTED] - counts[i, inst.STEPPING]
        decode, context = counts[i, inst.WAITING_DECODE_TOKENS], 0
        for k in range(counts[i, inst.RUNNING]):
            slot = state.running[i, k]
            given = slots[slot, req.KEPT]
            if slots[slot, req.STATUS] != req.PREFILLING:
                given += max(0, delivered - slots[slot, req.TOKEN_BATCH] + 1)
                context += computed_tokens(state, slot, counts[i, inst.FORMED])
            decode += max(0, slots[slot, req.PREDICTED_TOKENS] - given)
        prefill = counts[i, inst.WAITING_PREFILL_TOKENS]
        partial = counts[i, inst.PARTIAL]
        if partial >= 0:
            prefill += slots[partial, req.PROMPT_TOKENS] + slots[partial, req.KEPT]
            prefill -= slots[partial, req.COMPUTED]
        out[RUNNING, i] = counts[i, inst.RUNNING]
        out[WAITING, i] = counts[i, inst.WAITING]
        out[PREFILL, i] = prefill
        out[DECODE, i] = decode
        out[CONTEXT, i] = context
        out[FREE, i] = counts[i, inst.FREE_BLOCKS]
        out[TOTAL, i] = counts[i, inst.TOTAL_BLOCKS]
        out[RECEIVED, i] = counts[i, inst.RECEIVED]
    return out
