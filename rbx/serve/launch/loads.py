"""What every instance does now, for people to look at; nothing decides by it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp

from rbx.config.endpoints import InstanceEndpoint
from rbx.errors import EngineError
from rbx.serve.state.gauges import parse_gauges
from rbx.serve.watch.addresses import Addresses
from rbx.serve.watch.lifetime import Lifetime

PERIOD_S = 2.0
_GENERATED = "vllm:generation_tokens_total"
_MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class Load:
    """Requests at an instance, and output tokens a second since the page before; None without one."""

    running: int
    waiting: int
    tokens_per_s: float | None


class Loads:
    """The newest load of each instance; one that does not answer has none."""

    def __init__(self, endpoints: Mapping[str, InstanceEndpoint]) -> None:
        """Nothing is known yet."""
        self._pages = {name: Addresses.of(endpoint) for name, endpoint in endpoints.items()}
        self._counted: dict[str, tuple[float, float]] = {}
        self.now: dict[str, Load | None] = dict.fromkeys(endpoints)

    async def follow(self) -> None:
        """Read every page now and then, until cancelled."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PERIOD_S)) as session:
            while True:
                await asyncio.gather(*(self._read(name, session) for name in self._pages))
                await asyncio.sleep(PERIOD_S)

    async def _read(self, name: str, session: aiohttp.ClientSession) -> None:
        pages = self._pages[name]
        try:
            async with session.get(pages.metrics, headers=pages.headers(pages.metrics)) as answer:
                text = (await answer.content.read(_MOST_BYTES)).decode("utf-8", "replace")
            self.now[name] = self._load(name, text, time.monotonic())
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError, EngineError):
            self.now[name] = None

    def _load(self, name: str, text: str, now_s: float) -> Load:
        engines = parse_gauges(text, now_s)
        generated = Lifetime.of(text).counted.get(_GENERATED)
        rate = None
        if generated is not None:
            before, before_s = self._counted.get(name, (generated, now_s))
            if now_s > before_s and generated >= before:
                rate = (generated - before) / (now_s - before_s)
            self._counted[name] = generated, now_s
        return Load(
            sum(engine.running for engine in engines), sum(engine.waiting for engine in engines), rate
        )
