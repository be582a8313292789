"""When prompts are scored that do not wait for their batch: a queue of prompts and its workers.

Nothing that happens later changes it, so it is worked out for all arrivals at once, ahead of the runtime.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.config.deployment import ScoringQueue
from rbx.scheduler.scoring_times import ScoringTimes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ScoredArrivals:
    """Of N requests in order of arrival, (N,): when their call began and its answer was back, and which call.

    Times are from the start of the cell; the way there and back is in them.
    """

    began_s: Floats
    back_s: Floats
    call: Ints

    @property
    def order(self) -> Ints:
        """Requests (N,) as they come out; those of one moment in order of arrival."""
        return np.argsort(self.back_s, kind="stable").astype(np.int64)


def score_arrivals(
    arrived_s: Floats, prompt_tokens: Ints, queue: ScoringQueue, times: ScoringTimes
) -> ScoredArrivals:
    """Serve prompts (N,) first come, first served; ``arrived_s`` never falls.

    A call begins as soon as a worker is free and either ``max_size`` prompts wait or the first of them has
    waited ``window_s``; it takes all that wait then, up to ``max_size``.
    """
    asked_s = arrived_s + queue.rpc_s / 2
    serve = _one_by_one if queue.max_size == 1 else _in_calls
    began_s, done_s, call = serve(asked_s, prompt_tokens, queue, times)
    return ScoredArrivals(began_s, done_s + queue.rpc_s / 2, call)


def _one_by_one(
    asked_s: Floats, prompt_tokens: Ints, queue: ScoringQueue, times: ScoringTimes
) -> tuple[Floats, Floats, Ints]:
    """Calls of one prompt each, which need no window: a prompt fills its call."""
    free_s = [0.0] * queue.workers
    began_s = []
    for now_s, call_s in zip(asked_s.tolist(), times.alone_s(prompt_tokens).tolist(), strict=True):
        at_s = max(free_s[0], now_s)
        heapq.heapreplace(free_s, at_s + call_s)
        began_s.append(at_s)
    began = np.array(began_s)
    return began, began + times.alone_s(prompt_tokens), np.arange(len(asked_s), dtype=np.int64)


def _in_calls(
    asked_s: Floats, prompt_tokens: Ints, queue: ScoringQueue, times: ScoringTimes
) -> tuple[Floats, Floats, Ints]:
    n = len(asked_s)
    began_s, done_s = np.empty(n), np.empty(n)
    call = np.empty(n, dtype=np.int64)
    free_s = [0.0] * queue.workers
    first = calls = 0
    while first < n:
        full = first + queue.max_size - 1
        full_s = asked_s[full] if full < n else np.inf
        now_s = max(heapq.heappop(free_s), min(full_s, asked_s[first] + queue.window_s))
        end = min(first + queue.max_size, int(np.searchsorted(asked_s, now_s, side="right")))
        taken = slice(first, end)
        end_s = now_s + times.call_s(prompt_tokens[taken])
        began_s[taken], done_s[taken], call[taken] = now_s, end_s, calls
        heapq.heappush(free_s, end_s)
        first, calls = end, calls + 1
    return began_s, done_s, call


def fastest_per_s(prompt_tokens: Ints, queue: ScoringQueue, times: ScoringTimes) -> float:
    """Requests per second that such workers can take, in full calls of such prompts (P,); infinite if free.

    Calls hold neighbouring prompts of ``prompt_tokens``, the last one with the first ones again.
    """
    p = len(prompt_tokens)
    starts = range(0, p, queue.max_size)
    calls = [prompt_tokens[np.arange(start, start + queue.max_size) % p] for start in starts]
    mean_s = float(np.mean([times.call_s(tokens) for tokens in calls]))
    return queue.workers * queue.max_size / mean_s if mean_s > 0 else np.inf
