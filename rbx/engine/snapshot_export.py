"""The exact snapshot of a simulated instance."""

from __future__ import annotations

import numpy as np

from rbx.compiled import njit
from rbx.engine import instance_columns as inst
from rbx.engine import request_columns as req
from rbx.engine import snapshot_columns as snap
from rbx.engine.batch_formation import computed_tokens
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.queues import receive
from rbx.engine.simulator import EngineSim
from rbx.engine.state import EngineState, Floats, Ints
from rbx.engine.step_time import decode_run_s
from rbx.errors import EngineError


def export_snapshot(
    engine: EngineSim,
    instance: int,
    profile: InstanceProfile,
    version: int = 0,
    *,
    true_lengths: bool = False,
) -> InstanceSnapshot:
    """Instance number ``instance`` of ``engine`` now, as an exact plugin in the engine would show it.

    With ``true_lengths`` the predicted totals are the true ones (the oracle of an ablation); else they
    are the predictions that the requests were submitted with. Raises ``EngineError`` if there is no such
    instance or ``profile`` is not the one it runs with.
    """
    state = engine.state
    if not 0 <= instance < len(state.counts):
        raise EngineError(f"instance {instance} does not exist; there are {len(state.counts)}, from 0 on")
    limits = state.counts[instance, : inst.RESERVE + 1]
    prices = state.times[instance, : inst.PER_CROSS_S + 1]
    if not (np.array_equal(limits, profile.limits_row) and np.array_equal(prices, profile.coefficients_row)):
        raise EngineError(f"instance {instance} runs with other limits or step times than its profile")
    requests = request_rows(state, instance, engine.clock_s, true_lengths)
    starts, steps = batches_in_flight(state, instance)
    counts = state.counts[instance]
    free, running = int(counts[inst.FREE_BLOCKS]), int(counts[inst.RUNNING])
    return InstanceSnapshot(version, engine.clock_s, profile, free, running, requests, starts, steps)


@njit(cache=True)
def request_rows(state: EngineState, i: int, now_s: float, true_lengths: bool) -> Ints:
    """``InstanceSnapshot.requests`` of instance ``i``, with every arrival up to ``now_s``."""
    receive(state, i, now_s)
    counts, slots = state.counts, state.slots
    running = counts[i, inst.RUNNING]
    rows = np.zeros((running + counts[i, inst.WAITING], snap.N_REQUEST), dtype=np.int64)
    for k in range(running):
        slot = state.running[i, k]
        _describe(state, i, slot, rows[k], true_lengths)
        _describe_running(state, i, slot, rows[k])
    slot = counts[i, inst.WAITING_HEAD]
    for k in range(running, len(rows)):
        _describe(state, i, slot, rows[k], true_lengths)
        rows[k, snap.YIELDS] = k - running < counts[i, inst.STALE]
        slot = slots[slot, req.NEXT]
    return rows


@njit(cache=True)
def _describe(state: EngineState, i: int, slot: int, row: Ints, true_lengths: bool) -> None:
    slots = state.slots
    prompt, output = slots[slot, req.PROMPT_TOKENS], slots[slot, req.OUTPUT_TOKENS]
    row[snap.PROMPT] = prompt
    row[snap.GENERATED] = slots[slot, req.KEPT]
    row[snap.CAP] = slots[slot, req.CAP]
    row[snap.PREDICTED] = output if true_lengths else slots[slot, req.PREDICTED_TOKENS]
    row[snap.CACHED] = slots[slot, req.CACHED]
    row[snap.PREEMPTIONS] = slots[slot, req.PREEMPTIONS]


@njit(cache=True)
def _describe_running(state: EngineState, i: int, slot: int, row: Ints) -> None:
    counts, slots = state.counts, state.slots
    started, formed, block_size = counts[i, inst.STARTED], counts[i, inst.FORMED], counts[i, inst.BLOCK_SIZE]
    computed = computed_tokens(state, slot, formed)
    row[snap.COMPUTED] = computed
    row[snap.BLOCKS] = (computed + block_size - 1) // block_size
    if slots[slot, req.STATUS] == req.PREFILLING:
        row[snap.PREFILLING] = 1
        return
    first = slots[slot, req.TOKEN_BATCH]
    stepping = counts[i, inst.STEPPING]
    row[snap.GENERATED] += max(0, started - stepping - first + 1)
    row[snap.YIELDS] = stepping == 1 and first <= started
    row[snap.YIELDS_AHEAD] = formed > started and slots[slot, req.STATUS] == req.DECODING


@njit(cache=True)
def batches_in_flight(state: EngineState, i: int) -> tuple[Floats, Ints]:
    """``InstanceSnapshot.step_start_s`` and ``steps`` of instance ``i``."""
    counts, times = state.counts, state.times
    stepping = counts[i, inst.STEPPING]
    ahead = counts[i, inst.FORMED] - counts[i, inst.STARTED]
    starts, steps = (
        np.full(stepping + ahead, np.nan),
        np.zeros((stepping + ahead, snap.N_STEP), dtype=np.int64),
    )
    if stepping:
        decodes, context = counts[i, inst.RUN_DECODES], counts[i, inst.RUN_CONTEXT]
        walked = counts[i, inst.RUN_STEPS] - 1
        starts[0] = times[i, inst.RUN_START_S] + decode_run_s(times[i], decodes, context, walked)
        steps[0, snap.DECODES] = decodes
        steps[0, snap.CONTEXT] = context + walked * decodes
        steps[0, snap.PREFILL_TOKENS] = counts[i, inst.RUN_PREFILL_TOKENS]
        steps[0, snap.PREFILL_SQUARED] = counts[i, inst.RUN_PREFILL_SQUARED]
        steps[0, snap.PREFILL_CROSS] = counts[i, inst.RUN_PREFILL_CROSS]
    if ahead:
        steps[stepping, snap.DECODES] = counts[i, inst.AHEAD_DECODES]
        steps[stepping, snap.CONTEXT] = counts[i, inst.AHEAD_CONTEXT]
        steps[stepping, snap.PREFILL_TOKENS] = counts[i, inst.AHEAD_PREFILL_TOKENS]
        steps[stepping, snap.PREFILL_SQUARED] = counts[i, inst.AHEAD_PREFILL_SQUARED]
        steps[stepping, snap.PREFILL_CROSS] = counts[i, inst.AHEAD_PREFILL_CROSS]
    return starts, steps
