"""The state of all instances in seven flat arrays, and the packing of a tier into a row of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import Tier
from rbx.engine import instance_columns as inst
from rbx.engine import request_columns as req
from rbx.engine.instance_profile import InstanceProfile

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class EngineState(NamedTuple):
    """I instances and up to C requests; columns are named in ``instance_columns``, ``request_columns``."""

    counts: Ints  # (I, inst.N_COUNTS)
    times: Floats  # (I, inst.N_TIMES), seconds
    running: Ints  # (I, largest max_num_seqs): slots in the order of vLLM's running list
    due: Ints  # like ``running``: the batch that brings each one's first or else last token
    phases: Ints  # (I, largest block_size): decodes by the batch number, mod block_size, that needs a block
    slots: Ints  # (C, req.N_SLOTS)
    slot_times: Floats  # (C, req.N_SLOT_TIMES), seconds

    @classmethod
    def idle(cls, tiers: Sequence[Tier], capacity: int) -> EngineState:
        """One idle instance per tier given, no requests yet."""
        n = len(tiers)
        counts = np.zeros((n, inst.N_COUNTS), dtype=np.int64)
        times = np.zeros((n, inst.N_TIMES))
        for row, tier in enumerate(tiers):
            profile = InstanceProfile.of(tier)
            counts[row, : inst.RESERVE + 1] = profile.limits_row
            times[row, : inst.PER_CROSS_S + 1] = profile.coefficients_row
        queues = (inst.PENDING_HEAD, inst.PENDING_TAIL, inst.WAITING_HEAD, inst.WAITING_TAIL, inst.PARTIAL)
        counts[:, queues] = -1
        counts[:, inst.FREE_BLOCKS] = counts[:, inst.TOTAL_BLOCKS]
        counts[:, (inst.NEXT_DELIVERY, inst.NEXT_ENDING)] = req.NEVER
        times[:, (inst.FORM_S, inst.BUSY_SINCE_S)] = np.inf
        slot_times = np.full((capacity, req.N_SLOT_TIMES), np.nan)
        return cls(
            counts,
            times,
            np.zeros((n, int(counts[:, inst.MAX_SEQS].max())), dtype=np.int64),
            np.zeros((n, int(counts[:, inst.MAX_SEQS].max())), dtype=np.int64),
            np.zeros((n, int(counts[:, inst.BLOCK_SIZE].max())), dtype=np.int64),
            np.zeros((capacity, req.N_SLOTS), dtype=np.int64),
            slot_times,
        )
