"""One batch, as vLLM V1's scheduler forms it: running requests first, then waiting ones.

Decoding requests are handled as one group, because their order matters only when a block is missing
(vLLM 0.32 ``Scheduler.schedule``; first come first served, no speculation). A prefix-cache hit
spares its tokens but takes its blocks as if nobody else held them.
"""

from __future__ import annotations

import numpy as np

from rbx.compiled import bare_njit
from rbx.engine import instance_columns as inst
from rbx.engine import request_columns as req
from rbx.engine.queues import push_front, remove_after
from rbx.engine.state import EngineState


@bare_njit
def form_batch(state: EngineState, i: int, now_s: float) -> None:
    """Form the next batch of instance ``i`` into its AHEAD columns; FORMED stays if it is empty."""
    counts = state.counts
    batch = counts[i, inst.FORMED] + 1
    if batch >= counts[i, inst.NEXT_ENDING]:
        _leave_out_ending(state, i, batch)
    counts[i, inst.BLOCKED] = 0
    counts[i, inst.AHEAD_PREFILL_TOKENS] = 0
    counts[i, inst.AHEAD_PREFILL_SQUARED] = 0
    counts[i, inst.AHEAD_PREFILL_CROSS] = 0
    preempted = _allocate_decodes(state, i, batch)
    decodes = counts[i, inst.DECODES]
    counts[i, inst.AHEAD_DECODES] = decodes
    counts[i, inst.AHEAD_CONTEXT] = counts[i, inst.CONTEXT]
    counts[i, inst.CONTEXT] += decodes
    if counts[i, inst.PARTIAL] >= 0:
        preempted |= not _continue_partial(state, i, batch)
    if not preempted:
        _admit(state, i, batch, now_s)
    if decodes + counts[i, inst.AHEAD_PREFILL_TOKENS] > 0:
        counts[i, inst.FORMED] = batch


@bare_njit
def phase(state: EngineState, i: int, slot: int) -> int:
    """Batch number, mod block size, for which a decoding request needs one more block."""
    slots = state.slots
    known = slots[slot, req.PROMPT_TOKENS] + slots[slot, req.KEPT]
    return int((1 + slots[slot, req.TOKEN_BATCH] - known) % state.counts[i, inst.BLOCK_SIZE])


@bare_njit
def computed_tokens(state: EngineState, slot: int, batch: int) -> int:
    """Tokens of a running request in the batches up to ``batch``."""
    slots = state.slots
    if slots[slot, req.STATUS] == req.PREFILLING:
        return int(slots[slot, req.COMPUTED])
    if slots[slot, req.STATUS] == req.ENDING:
        batch = min(batch, slots[slot, req.LAST_BATCH])
    known = slots[slot, req.PROMPT_TOKENS] + slots[slot, req.KEPT]
    return int(known + batch - slots[slot, req.TOKEN_BATCH])


@bare_njit
def release(state: EngineState, i: int, slot: int) -> None:
    """Free the blocks of a running request and take it out of the decode group, if it is in it."""
    counts = state.counts
    computed = computed_tokens(state, slot, counts[i, inst.FORMED])
    block_size = counts[i, inst.BLOCK_SIZE]
    counts[i, inst.FREE_BLOCKS] += (computed + block_size - 1) // block_size
    if state.slots[slot, req.STATUS] == req.DECODING:
        _drop_decode(state, i, slot)


@bare_njit
def _drop_decode(state: EngineState, i: int, slot: int) -> None:
    counts = state.counts
    counts[i, inst.DECODES] -= 1
    counts[i, inst.CONTEXT] -= computed_tokens(state, slot, counts[i, inst.FORMED])
    state.phases[i, phase(state, i, slot)] -= 1


@bare_njit
def _leave_out_ending(state: EngineState, i: int, batch: int) -> None:
    """Asynchronous scheduling: a request known to end with the running step gets no further batch."""
    counts, slots, running = state.counts, state.slots, state.running
    following = np.int64(req.NEVER)
    for k in range(counts[i, inst.RUNNING]):
        slot = running[i, k]
        if slots[slot, req.STATUS] == req.DECODING and slots[slot, req.BY_LENGTH]:
            if slots[slot, req.LAST_BATCH] < batch:
                _drop_decode(state, i, slot)
                slots[slot, req.STATUS] = req.ENDING
            else:
                following = min(following, slots[slot, req.LAST_BATCH] + 1)
    counts[i, inst.NEXT_ENDING] = following


@bare_njit
def _allocate_decodes(state: EngineState, i: int, batch: int) -> bool:
    """Give decoding requests the blocks that this batch needs; True if a request was preempted for it."""
    counts, slots, running = state.counts, state.slots, state.running
    turn = batch % counts[i, inst.BLOCK_SIZE]
    needed = state.phases[i, turn]
    if needed <= counts[i, inst.FREE_BLOCKS]:
        counts[i, inst.FREE_BLOCKS] -= needed
        return False
    k = 0
    while k < counts[i, inst.RUNNING]:
        slot = running[i, k]
        if slots[slot, req.STATUS] == req.DECODING and phase(state, i, slot) == turn:
            while counts[i, inst.FREE_BLOCKS] == 0 and k < counts[i, inst.RUNNING]:
                _preempt_last(state, i)
            if k == counts[i, inst.RUNNING]:
                break
            counts[i, inst.FREE_BLOCKS] -= 1
        k += 1
    return True


@bare_njit
def _preempt_last(state: EngineState, i: int) -> None:
    """Recompute later: the last running request loses its blocks and goes to the front of the queue.

    A token of it that the running step is computing is still delivered when the step ends.
    """
    counts, slots = state.counts, state.slots
    counts[i, inst.RUNNING] -= 1
    slot = state.running[i, counts[i, inst.RUNNING]]
    release(state, i, slot)
    if slots[slot, req.STATUS] == req.PREFILLING:
        counts[i, inst.PARTIAL] = -1
    else:
        delivered = counts[i, inst.STARTED] - counts[i, inst.STEPPING]
        slots[slot, req.KEPT] += max(0, delivered - slots[slot, req.TOKEN_BATCH] + 1)
        if counts[i, inst.STEPPING]:
            slots[slot, req.TOKEN_BATCH] = counts[i, inst.STARTED]
            counts[i, inst.STALE] += 1
        else:
            slots[slot, req.TOKEN_BATCH] = req.NEVER
    slots[slot, req.PREEMPTIONS] += 1
    push_front(state, i, slot)


@bare_njit
def _continue_partial(state: EngineState, i: int, batch: int) -> bool:
    """Next chunk of the partly prefilled request; False if it had to give way for want of blocks."""
    counts, slots = state.counts, state.slots
    slot, block_size = counts[i, inst.PARTIAL], counts[i, inst.BLOCK_SIZE]
    computed = slots[slot, req.COMPUTED]
    needed = slots[slot, req.PROMPT_TOKENS] + slots[slot, req.KEPT] - computed
    # Decodes leave room: there are fewer of them than max_num_seqs, which the token budget covers.
    tokens = min(needed, counts[i, inst.TOKEN_BUDGET] - counts[i, inst.AHEAD_DECODES])
    blocks = (computed + tokens + block_size - 1) // block_size - (computed + block_size - 1) // block_size
    if blocks > counts[i, inst.FREE_BLOCKS]:
        _preempt_last(state, i)
        return False
    counts[i, inst.FREE_BLOCKS] -= blocks
    _add_prefill(state, i, batch, slot, tokens)
    return True


@bare_njit
def _admit(state: EngineState, i: int, batch: int, now_s: float) -> None:
    """Let waiting requests in, first come first served, until one does not fit."""
    counts, slots = state.counts, state.slots
    block_size = counts[i, inst.BLOCK_SIZE]
    budget = counts[i, inst.TOKEN_BUDGET] - counts[i, inst.AHEAD_DECODES]
    budget -= counts[i, inst.AHEAD_PREFILL_TOKENS]
    while counts[i, inst.WAITING] > 0:
        slot = counts[i, inst.WAITING_HEAD]
        known = slots[slot, req.PROMPT_TOKENS] + slots[slot, req.KEPT]
        cached = slots[slot, req.CACHED]
        needed = known - cached
        tokens = min(needed, budget)
        gate = known if counts[i, inst.RESERVE] else cached + tokens
        if (
            counts[i, inst.RUNNING] >= counts[i, inst.MAX_SEQS]
            or (not counts[i, inst.CHUNKED] and needed > budget)
            or (gate + block_size - 1) // block_size > counts[i, inst.FREE_BLOCKS]
        ):
            counts[i, inst.BLOCKED] = 1
            return
        if budget <= 0:
            return
        remove_after(state, i, -1, slot)
        state.running[i, counts[i, inst.RUNNING]] = slot
        state.due[i, counts[i, inst.RUNNING]] = req.NEVER
        counts[i, inst.RUNNING] += 1
        counts[i, inst.FREE_BLOCKS] -= (cached + tokens + block_size - 1) // block_size
        if np.isnan(state.slot_times[slot, req.SCHEDULED_S]):
            state.slot_times[slot, req.SCHEDULED_S] = now_s
        slots[slot, req.STATUS] = req.PREFILLING
        slots[slot, req.COMPUTED] = cached
        _add_prefill(state, i, batch, slot, tokens)
        budget -= tokens


@bare_njit
def _add_prefill(state: EngineState, i: int, batch: int, slot: int, tokens: int) -> None:
    counts, slots = state.counts, state.slots
    computed = slots[slot, req.COMPUTED]
    counts[i, inst.AHEAD_PREFILL_TOKENS] += tokens
    counts[i, inst.AHEAD_PREFILL_SQUARED] += tokens * tokens
    counts[i, inst.AHEAD_PREFILL_CROSS] += tokens * computed
    slots[slot, req.COMPUTED] = computed + tokens
    if computed + tokens == slots[slot, req.PROMPT_TOKENS] + slots[slot, req.KEPT]:
        counts[i, inst.PARTIAL] = -1
        _start_decoding(state, i, batch, slot)
    else:
        counts[i, inst.PARTIAL] = slot


@bare_njit
def _start_decoding(state: EngineState, i: int, batch: int, slot: int) -> None:
    """The prefill ends with ``batch``, which gives the next token; later batches decode the request."""
    counts, slots = state.counts, state.slots
    last = batch + slots[slot, req.OUTPUT_TOKENS] - slots[slot, req.KEPT] - 1
    slots[slot, req.STATUS] = req.DECODING
    slots[slot, req.TOKEN_BATCH] = batch
    slots[slot, req.LAST_BATCH] = last
    counts[i, inst.DECODES] += 1
    counts[i, inst.CONTEXT] += slots[slot, req.COMPUTED]
    state.phases[i, phase(state, i, slot)] += 1
    first = batch if np.isnan(state.slot_times[slot, req.FIRST_TOKEN_S]) else last
    state.due[i, counts[i, inst.RUNNING] - 1] = first  # a prefill always stands last
    counts[i, inst.NEXT_DELIVERY] = min(counts[i, inst.NEXT_DELIVERY], first)
    if counts[i, inst.ASYNC] and slots[slot, req.BY_LENGTH]:
        counts[i, inst.NEXT_ENDING] = min(counts[i, inst.NEXT_ENDING], last + 1)
