"""Scoring ahead of the decision loop: what the queue costs a simulated request, and a real one."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np

from rbx.config.deployment import Concurrent, Deployment, Microbatch, Serial
from rbx.scheduler.scoring_stage import score_arrivals
from rbx.scheduler.scoring_times import ScoringTimes
from rbx.serve.gateway.scoring.gathering import Gathering

_ARRIVALS = 50_000
_ASKED = 5_000
_RUNGS: tuple[Deployment, ...] = (Serial(), Microbatch(), Concurrent())


def rows() -> list[dict[str, Any]]:
    """Microseconds a request, the best of three."""
    simulated = [
        {
            "path": f"simulated scoring queue, {rung.label}, a request",
            "ours": min(_simulated_s(rung) for _ in range(3)) / _ARRIVALS * 1e6,
            "unit": "µs",
        }
        for rung in _RUNGS
    ]
    real = [
        {
            "path": f"gateway's scoring queue, {rung.label}, a prompt, calls that cost nothing",
            "ours": min(asyncio.run(_asked_s(rung)) for _ in range(3)) / _ASKED * 1e6,
            "unit": "µs",
        }
        for rung in _RUNGS
    ]
    return [*simulated, *real]


def _simulated_s(rung: Deployment) -> float:
    rng = np.random.default_rng(0)
    arrived_s = np.cumsum(rng.exponential(0.03, _ARRIVALS))
    tokens = rng.integers(10, 400, _ARRIVALS)
    queue = rung.queue
    assert queue is not None
    times = ScoringTimes(0.005, 0.0, 1e-4, 512, padded=True)
    started = time.perf_counter()
    score_arrivals(arrived_s, tokens, queue, times)
    return time.perf_counter() - started


async def _asked_s(rung: Deployment) -> float:
    queue = rung.queue
    assert queue is not None

    async def call(texts: list[str]) -> list[str]:
        return texts

    gathering = Gathering(queue, call, time.monotonic, 10.0)
    started = time.perf_counter()
    await asyncio.gather(*(gathering.ask("a prompt") for _ in range(_ASKED)))
    took_s = time.perf_counter() - started
    await gathering.close()
    return took_s
