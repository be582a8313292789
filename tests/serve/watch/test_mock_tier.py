"""Watching the mock servers, whose engine is the one that the shadow runs beside."""

from __future__ import annotations

import asyncio
import json
import time

import aiohttp

from rbx.config.gateway import Watch
from rbx.serve.mock.serving import MockTier, serve_mock
from rbx.serve.watch.pool_watch import PoolWatch
from tests.serve.watch.pages import small_pool
from tests.serve.watch.targets import until

POOL = small_pool(2)
CONFIG = Watch(period_s=0.05, timeout_s=0.5, max_age_s=1.0)
MODES = (
    ("garbage", "invalid"),
    ("nan", "invalid"),
    ("negative", "invalid"),
    ("hang", "timeout"),
    ("status", "status"),
    ("stale", "invalid"),
)
LONG = {"model": "tiny", "prompt": "one two three", "max_tokens": 400, "ignore_eos": True, "stream": True}


def load_at(watch: PoolWatch, i: int) -> int:
    seen = watch.view(time.monotonic()).telemetry
    return int(seen.running[i] + seen.waiting[i])


async def stream(session: aiohttp.ClientSession, url: str, watch: PoolWatch | None) -> None:
    """One request at instance 0, told to ``watch`` if it is ours."""
    if watch is not None:
        watch.dispatched(0, "ours", time.monotonic(), 3, 400, 400)
    tokens = 0
    try:
        async with session.post(f"{url}/completions", json=LONG) as answer:
            async for line in answer.content:
                if watch is not None and line.startswith(b"data: {"):
                    choices = json.loads(line[6:]).get("choices")
                    tokens += bool(choices and choices[0].get("text"))
                    watch.tokens(0, "ours", time.monotonic(), tokens)
    finally:
        if watch is not None:
            watch.ended(0, "ours", time.monotonic())


async def false_page(
    session: aiohttp.ClientSession, tier: MockTier, watch: PoolWatch, mode: str, reason: str
) -> None:
    """Our request is there all the time, and the fault is counted."""

    def failures() -> int:
        return watch.failures.get(("tier/0", "gauges", reason), 0)

    before = failures()
    tier.set_faults({"kind": "telemetry", "target": "tier/0", "mode": mode})
    ours = asyncio.create_task(stream(session, tier.url("tier/0"), watch))
    await until(lambda: failures() > before)
    assert load_at(watch, 0) == 1
    assert load_at(watch, 1) == 0
    ours.cancel()
    await asyncio.gather(ours, return_exceptions=True)
    assert watch.in_flight.tolist() == [0, 0]


async def story(tier: MockTier) -> None:
    watch = PoolWatch(POOL, tier.endpoints.of(POOL), CONFIG)
    await watch.start()
    assert watch.view(time.monotonic()).ready.tolist() == [True, True]
    async with aiohttp.ClientSession() as session:
        url = tier.url("tier/0")
        others = asyncio.create_task(stream(session, url, None))
        await until(lambda: load_at(watch, 0) == 1)
        assert watch.in_flight.tolist() == [0, 0]
        others.cancel()
        await until(lambda: load_at(watch, 0) == 0)
        for mode, reason in MODES:
            await false_page(session, tier, watch, mode, reason)
        tier.set_faults({"kind": "down", "target": "tier/0"})
        await until(lambda: watch.ready(time.monotonic()).tolist() == [False, True])
        tier.set_faults()
        await until(lambda: watch.ready(time.monotonic()).tolist() == [True, True])
    assert {name for name, _, _ in watch.failures} == {"tier/0"}
    await watch.stop()


def test_faults_of_mock_servers_leave_our_own_requests_counted() -> None:
    with serve_mock(POOL, time_scale=1.0) as tier:
        asyncio.run(story(tier))
