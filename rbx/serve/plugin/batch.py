"""A batch in flight: what it computes, which requests it gives a token, and when it started."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class Batch:
    """One batch of vLLM; ``make_up`` has the columns of ``snapshot_columns.STEP_FIELDS``."""

    make_up: tuple[int, int, int, int, int]
    prefills: int  # prompt chunks
    yields: frozenset[str]  # ids of the requests that it gives a token
    start_s: float = math.nan


def batch_of(scheduler: Any, output: Any, prefilling: set[str]) -> Batch:
    """The batch that ``scheduler`` has just formed as ``output``.

    ``prefilling`` are the running requests that were in the middle of their prefill before; it becomes
    those that are now. Whoever is (re)admitted, or was among them, computes a chunk; all others decode.
    """
    requests, tokens = scheduler.requests, output.num_scheduled_tokens
    cached = output.scheduled_cached_reqs
    chunks = {new.req_id for new in output.scheduled_new_reqs}
    chunks.update(cached.resumed_req_ids)
    chunks.update(name for name in prefilling if name in tokens)
    context = prefill_tokens = squared = cross = 0
    for name in tokens:
        context += requests[name].num_computed_tokens
    for name in chunks:
        n, computed = tokens[name], requests[name].num_computed_tokens
        context -= computed
        prefill_tokens, squared, cross = prefill_tokens + n, squared + n * n, cross + n * (computed - n)
    unfinished = {name for name in chunks if requests[name].is_prefill_chunk}
    # One that gets no token in this batch though it is in its prefill stays in it; a preempted one does not.
    prefilling &= {request.request_id for request in scheduler.running if request.is_prefill_chunk}
    prefilling |= unfinished
    decodes = len(tokens) - len(chunks)
    make_up = (decodes, context - decodes, prefill_tokens, squared, cross)
    return Batch(make_up, len(chunks), frozenset(tokens.keys() - unfinished))
