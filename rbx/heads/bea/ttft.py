"""BEA (arXiv 2607.18253): load a snapshot into the engine, add the probe, run to its first token.

The batches are formed by the very rules of the simulator (``rbx.engine.batch_formation``), runs of
identical decode steps are priced in one go, and nothing after the probe's first token is looked at.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.compiled import bare_njit, njit
from rbx.engine import instance_columns as inst
from rbx.engine import request_columns as req
from rbx.engine import snapshot_columns as snap
from rbx.engine.batch_replay import advance_all, run_to_first_token
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.queues import enqueue_arrival
from rbx.engine.snapshot_loading import empty_instance, enter_request, load
from rbx.engine.state import EngineState
from rbx.errors import EngineError
from rbx.heads.bea.lengths import LengthRule, total_tokens
from rbx.heads.bea.prediction import Probe, ReplayCaps, TtftFlag, TtftPrediction
from rbx.heads.bea.unseen import NOTHING_UNSEEN, UnseenRequests

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_TIME_CAP, _STEP_CAP = int(TtftFlag.TIME_CAP), int(TtftFlag.STEP_CAP)
_PREEMPTION, _AGED, _OVERDUE = int(TtftFlag.PREEMPTION), int(TtftFlag.AGED), int(TtftFlag.OVERDUE)
_LENGTH_UNKNOWN, _BLOCKS_DISAGREE = int(TtftFlag.LENGTH_UNKNOWN), int(TtftFlag.BLOCKS_DISAGREE)
_FLAGS = [TtftFlag(value) for value in range(2 * _BLOCKS_DISAGREE)]
_FUTURE_DISPATCH, _NO_ROOM = -1, -2
_ANY_LENGTH, _ANY_CAPS = LengthRule(), ReplayCaps()


def predict_ttft(
    snapshot: InstanceSnapshot,
    probe: Probe,
    *,
    now_s: float | None = None,
    unseen: UnseenRequests = NOTHING_UNSEEN,
    lengths: LengthRule = _ANY_LENGTH,
    caps: ReplayCaps = _ANY_CAPS,
) -> TtftPrediction:
    """Time from ``now_s`` (the snapshot's stamp if not given) to the first token of ``probe``.

    The instance is first brought from its stamp to ``now_s``, ``unseen`` requests joining at their
    dispatch; the probe joins last, at ``now_s``. Pure: same arguments, same answer.

    Raises ``EngineError`` if ``now_s`` lies before the stamp or a dispatch, or a prompt does not fit
    into the context.
    """
    stamp_s, profile = snapshot.stamp_s, snapshot.profile
    now_s = stamp_s if now_s is None else now_s
    if not stamp_s <= now_s < np.inf:
        raise EngineError(
            f"now_s is {now_s} and stamp_s is {stamp_s}: the snapshot's age must be finite and not "
            "negative; take both from one monotonic clock"
        )
    edges, medians = lengths.tables
    seconds, steps, flags = _replay(
        profile.limits_row,
        profile.coefficients_row,
        stamp_s,
        snapshot.free_blocks,
        snapshot.running,
        snapshot.requests,
        snapshot.step_start_s,
        snapshot.steps,
        unseen.dispatched_s,
        unseen.requests,
        probe.prompt_tokens,
        probe.cached_prefix_tokens,
        now_s,
        edges,
        medians,
        lengths.reserve_tokens,
        lengths.trust_predictions,
        caps.horizon_s,
        caps.max_steps,
    )
    if flags < 0:
        raise EngineError(_refusal(flags, steps, snapshot, probe, unseen, now_s))
    return TtftPrediction(seconds, steps, _FLAGS[flags])


def _refusal(
    fault: int, row: int, snapshot: InstanceSnapshot, probe: Probe, unseen: UnseenRequests, now_s: float
) -> str:
    if fault == _FUTURE_DISPATCH:
        return f"unseen request {row}: dispatched_s is {unseen.dispatched_s[row]}, after now_s = {now_s}"
    of_probe = row == len(unseen.requests)
    who = "the probe" if of_probe else f"unseen request {row}"
    prompt = probe.prompt_tokens if of_probe else int(unseen.requests[row, snap.PROMPT])
    rest = "a first token" if of_probe else f"cap_tokens {int(unseen.requests[row, snap.CAP])}"
    return (
        f"{who}: prompt_tokens {prompt} and {rest} pass max_model_len = "
        f"{snapshot.profile.limits.max_model_len}; leave this instance out for it"
    )


@njit(cache=True)
def _replay(
    limits: Ints,
    coefficients: Floats,
    stamp_s: float,
    free_blocks: int,
    running: int,
    requests: Ints,
    step_start_s: Floats,
    steps: Ints,
    dispatched_s: Floats,
    unseen: Ints,
    prompt_tokens: int,
    cached_tokens: int,
    now_s: float,
    edges: Ints,
    medians: Ints,
    reserve_tokens: int,
    trust_predictions: bool,
    horizon_s: float,
    max_steps: int,
) -> tuple[float, int, int]:
    """Seconds, steps and flags; a negative flag is a fault, and steps then the row that has it."""
    fault, row = _fault(limits[inst.MAX_MODEL_LEN], dispatched_s, unseen, prompt_tokens, now_s)
    if fault < 0:
        return 0.0, row, fault
    n = len(requests)
    probe = n + len(unseen)
    state = empty_instance(limits, coefficients, probe + 1)
    totals, flags = np.empty(n, dtype=np.int64), 0
    for k in range(n):
        totals[k], unknown = total_tokens(requests[k], edges, medians, reserve_tokens, trust_predictions)
        flags |= _LENGTH_UNKNOWN if unknown else 0
    load(state, stamp_s, free_blocks, running, requests, totals, step_start_s, steps)
    flags |= _visible_flags(state, stamp_s, requests, running, step_start_s)
    for k in range(len(unseen)):
        total, unknown = total_tokens(unseen[k], edges, medians, reserve_tokens, trust_predictions)
        flags |= _LENGTH_UNKNOWN if unknown else 0
        enter_request(state, n + k, unseen[k], total)
        state.slot_times[n + k, req.AT_S] = max(stamp_s, dispatched_s[k])
        enqueue_arrival(state, n + k)
    ended = _steps_ended(state)
    advance_all(state, now_s)
    if now_s > stamp_s and _steps_ended(state) > ended:
        flags |= _AGED
    _enter_probe(state, probe, prompt_tokens, cached_tokens, now_s)
    seconds, count, caps = _first_token(state, probe, now_s, horizon_s, max_steps)
    for slot in range(probe + 1):
        if state.slots[slot, req.PREEMPTIONS] > 0:
            flags |= _PREEMPTION
    return seconds, count, flags | caps


@bare_njit
def _fault(
    max_model_len: int, dispatched_s: Floats, unseen: Ints, prompt_tokens: int, now_s: float
) -> tuple[int, int]:
    for k in range(len(unseen)):
        if dispatched_s[k] > now_s:
            return _FUTURE_DISPATCH, k
        # Written so that no sum can overflow.
        if unseen[k, snap.PROMPT] > max_model_len - unseen[k, snap.CAP]:
            return _NO_ROOM, k
    if prompt_tokens >= max_model_len:
        return _NO_ROOM, len(unseen)
    return 0, -1


@bare_njit
def _visible_flags(
    state: EngineState, stamp_s: float, requests: Ints, running: int, step_start_s: Floats
) -> int:
    """Flags that the snapshot alone raises."""
    held = 0
    for k in range(running):
        held += requests[k, snap.BLOCKS]
    counts, flags = state.counts, 0
    if held != counts[0, inst.TOTAL_BLOCKS] - counts[0, inst.FREE_BLOCKS]:
        flags |= _BLOCKS_DISAGREE
    if counts[0, inst.STEPPING] and state.times[0, inst.RUN_START_S] > step_start_s[0]:
        flags |= _OVERDUE
    return flags


@bare_njit
def _steps_ended(state: EngineState) -> int:
    return int(state.counts[0, inst.STARTED] - state.counts[0, inst.STEPPING])


@njit(cache=True)
def _enter_probe(state: EngineState, slot: int, prompt_tokens: int, cached_tokens: int, now_s: float) -> None:
    row = np.zeros(snap.N_REQUEST, dtype=np.int64)
    row[snap.PROMPT] = prompt_tokens
    row[snap.CACHED] = cached_tokens
    row[snap.CAP] = state.counts[0, inst.MAX_MODEL_LEN] - prompt_tokens
    enter_request(state, slot, row, 1)
    state.slot_times[slot, req.AT_S] = now_s
    state.slot_times[slot, req.FIRST_TOKEN_S] = np.nan
    enqueue_arrival(state, slot)


@bare_njit
def _first_token(
    state: EngineState, probe: int, now_s: float, horizon_s: float, max_steps: int
) -> tuple[float, int, int]:
    """Seconds and steps from ``now_s`` to the probe's first token, or to the cap that is flagged."""
    before = _steps_ended(state)
    run_to_first_token(state, 0, probe, now_s + horizon_s, before + max_steps)
    first_s, count = state.slot_times[probe, req.FIRST_TOKEN_S], _steps_ended(state) - before
    if not np.isnan(first_s):
        return first_s - now_s, count, 0
    if count >= max_steps:
        return min(state.times[0, inst.END_S] - now_s, horizon_s), count, _STEP_CAP
    return horizon_s, count, _TIME_CAP
