"""The slots of finished requests given back, so that an engine can serve without end."""

from __future__ import annotations

import numpy as np

from rbx.engine import instance_columns as inst
from rbx.engine import request_columns as req
from rbx.engine.state import EngineState, Ints

_HEADS = (inst.PENDING_HEAD, inst.PENDING_TAIL, inst.WAITING_HEAD, inst.WAITING_TAIL, inst.PARTIAL)


def without_finished(state: EngineState, total: int, capacity: int) -> tuple[EngineState, Ints]:
    """The same instances with room for ``capacity`` requests, and the old slots (N,) that are left.

    Unfinished request ``kept[n]`` has slot n from now on; order is kept. ``capacity`` must hold them.
    """
    kept = np.flatnonzero(state.slots[:total, req.STATUS] != req.FINISHED)
    moved = np.full(total + 1, -1, dtype=np.int64)  # the last entry is where −1, the end of a list, leads
    moved[kept] = np.arange(len(kept))
    slots = np.zeros((capacity, req.N_SLOTS), dtype=np.int64)
    slots[: len(kept)] = state.slots[kept]
    queued = np.isin(slots[: len(kept), req.STATUS], (req.PENDING, req.WAITING))
    slots[: len(kept), req.NEXT] = np.where(queued, moved[slots[: len(kept), req.NEXT]], -1)
    slot_times = np.full((capacity, req.N_SLOT_TIMES), np.nan)
    slot_times[: len(kept)] = state.slot_times[kept]
    counts, running = state.counts.copy(), state.running.copy()
    for column in _HEADS:
        counts[:, column] = moved[counts[:, column]]
    for i, held in enumerate(counts[:, inst.RUNNING]):
        running[i, :held] = moved[running[i, :held]]
    return state._replace(counts=counts, running=running, slots=slots, slot_times=slot_times), kept
