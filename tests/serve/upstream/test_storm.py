"""Many requests at once to a server that fails in every way, clients that leave among them."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import Any

from rbx.config.gateway import Deadlines
from rbx.serve.exchange import UpstreamFault
from rbx.serve.upstream.instance import HttpInstance
from tests.serve.upstream.streaming_server import (
    DONE,
    FINISH,
    ROLE,
    USAGE,
    Script,
    Step,
    event,
    said,
    streaming,
)

REQUESTS = 300
DEADLINES = Deadlines(connect_s=1.0, first_token_s=0.15, between_tokens_s=0.15, total_s=1.0)
STEPS: tuple[Step, ...] = (
    *(ROLE, said("a"), said("ü🌍"), said("ü🌍")[:-20], FINISH, USAGE, DONE),
    *(b": ping\n\n", b"data: {", b"\n\n", b"\r\n", b"data: 5\n\n", b"\xff\xfe", b"x" * 5000),
    *(event({"error": {"message": "m", "code": 400}}), b"event: error\ndata: x\n\n"),
    *(0.01, 0.1, 0.3, "hang", "cut", "reset"),
)
HEADS = (None,) * 12 + (b"\x00garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n")
TYPES = ("text/event-stream",) * 4 + ("application/json", "text/html")


def script(body: dict[str, Any]) -> Script:
    dice = random.Random(body["seed"])
    return Script(
        [dice.choice(STEPS) for _ in range(dice.randrange(8))],
        status=dice.choice([200] * 9 + [500, 302, 400]),
        content_type=dice.choice(TYPES),
        silent=dice.random() < 0.03,
        raw_head=dice.choice(HEADS),
    )


async def ask(instance: HttpInstance, seed: int) -> str:
    dice = random.Random(-seed)
    body = {"stream": dice.random() < 0.8, "seed": seed, "n": dice.choice([1, 1, 2])}
    try:
        exchange = await instance.send("/chat/completions", body, DEADLINES)
        try:
            async for _ in exchange.pieces():
                if dice.random() < 0.05:
                    return "left"
        finally:
            await exchange.close()
    except UpstreamFault as fault:
        return fault.kind
    return "ok"


async def ask_or_leave(instance: HttpInstance, seed: int, places: asyncio.Semaphore) -> str:
    dice = random.Random(seed)
    async with places:
        task = asyncio.ensure_future(ask(instance, seed))
        if dice.random() < 0.1:
            await asyncio.sleep(dice.random() * 0.3)
            task.cancel()
        started_s = time.monotonic()
        await asyncio.wait({task}, timeout=10.0)
        assert time.monotonic() - started_s < 5.0
        return "cancelled" if task.cancelled() else task.result()


def test_every_request_ends_in_a_known_way_and_leaves_nothing_behind() -> None:
    async def run() -> Counter[str]:
        async with streaming(script) as served:
            instance = served.instance()
            places = asyncio.Semaphore(50)
            ends = await asyncio.gather(
                *(ask_or_leave(instance, seed, places) for seed in range(1, REQUESTS + 1))
            )
            limit_s = time.monotonic() + 5.0
            while served.under_way:
                assert time.monotonic() < limit_s, f"{served.under_way} requests go on at the server"
                await asyncio.sleep(0.01)
            await instance.close()
        return Counter(ends)

    ends = asyncio.run(run())
    assert sum(ends.values()) == REQUESTS
    assert {"ok", "cancelled", "cut", "malformed", "status", "first_token_timeout"} <= set(ends)
