"""What the snapshot of a twin counts up to, without making it.

A decision that reads telemetry alone needs six numbers of an instance. A snapshot of it is a table of
requests that is copied and checked, a dozen times the work.
"""

from __future__ import annotations

import numpy as np

from rbx.compiled import njit
from rbx.engine import instance_columns as inst
from rbx.engine import request_columns as req
from rbx.engine.batch_formation import computed_tokens
from rbx.engine.queues import next_arrival_s
from rbx.engine.snapshot_counts import CONTEXT, DECODE, FREE_BLOCKS, PREFILL, RUNNING, WAITING
from rbx.engine.state import EngineState, Ints
from rbx.serve.state.twin import NOTHING, Watched, given_tokens, projection, shows_token, strays


@njit(cache=True)
def load_at(
    state: EngineState,
    watched: Watched,
    seen: Ints,
    outstanding: int,
    now_s: float,
    token_delay_s: float,
    load: Ints,
) -> float:
    """Write into ``load`` (snapshot_counts.N_LOAD,) what the snapshot at ``now_s`` would count up to.

    Returns until when this stays so if nothing is heard; −inf, and nothing of use is written, if the twin
    has to be corrected first: it has strayed, or does not hold all ``outstanding`` requests of ours.
    """
    if strays(state, watched, seen):
        return -np.inf
    shown = state
    if _moves_at_s(state, watched) <= now_s or token_delay_s > 0.0:
        shown = projection(state, watched, now_s, token_delay_s)
    if _count(shown, watched, load) < outstanding:
        return -np.inf
    return _moves_at_s(shown, watched) if token_delay_s == 0.0 else now_s


@njit(cache=True)
def _moves_at_s(state: EngineState, watched: Watched) -> float:
    """The clock alone changes nothing before this time; see ``twin.follow``."""
    if state.counts[0, inst.STEPPING]:
        return np.inf if shows_token(state, watched) else float(state.times[0, inst.END_S])
    return min(float(state.times[0, inst.FORM_S]), next_arrival_s(state, 0))


@njit(cache=True)
def _count(state: EngineState, watched: Watched, load: Ints) -> int:
    """Count all requests, those still on their way as waiting ones; how many of them are ours."""
    counts, slots = state.counts, state.slots
    ours, waiting, prefill, decode, context = 0, 0, 0, 0, 0
    for k in range(counts[0, inst.RUNNING]):
        slot = state.running[0, k]
        ours += watched[slot] != NOTHING
        computed = computed_tokens(state, slot, counts[0, inst.FORMED])
        if slots[slot, req.STATUS] == req.PREFILLING:
            given = slots[slot, req.KEPT]
            prefill += slots[slot, req.PROMPT_TOKENS] + given - computed
        else:
            given = given_tokens(state, slot)
            context += computed
        decode += max(0, slots[slot, req.PREDICTED_TOKENS] - given)
    # The instance's own sums over its queue are of no use: those of a twin do not go by predictions.
    for head in (counts[0, inst.WAITING_HEAD], counts[0, inst.PENDING_HEAD]):
        slot = head
        while slot >= 0:
            ours += watched[slot] != NOTHING
            waiting += 1
            prefill += slots[slot, req.PROMPT_TOKENS] + slots[slot, req.KEPT]
            decode += max(0, slots[slot, req.PREDICTED_TOKENS] - slots[slot, req.KEPT])
            slot = slots[slot, req.NEXT]
    load[RUNNING], load[WAITING], load[PREFILL] = counts[0, inst.RUNNING], waiting, prefill
    load[DECODE], load[CONTEXT] = decode, context
    load[FREE_BLOCKS] = min(max(0, counts[0, inst.FREE_BLOCKS]), counts[0, inst.TOTAL_BLOCKS])
    return int(ours)
