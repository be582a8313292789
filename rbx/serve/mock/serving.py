"""Mock servers in a thread of their own, for tests, notebooks and the command line."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from rbx.config.base import parse
from rbx.config.endpoints import Endpoints
from rbx.config.faults import FaultScript
from rbx.config.pool import Pool
from rbx.serve.event_loop import new_event_loop
from rbx.serve.mock.paced_engine import compile_kernels
from rbx.serve.mock.tier import MockPool, Sight

T = TypeVar("T")
_END_S = 30.0


class MockTier:
    """A running set of mock servers; every method may be called from any thread but the servers' own."""

    def __init__(self, pool: MockPool, loop: asyncio.AbstractEventLoop) -> None:
        """``pool`` serves in ``loop``, which runs in another thread."""
        self._pool, self._loop = pool, loop
        self.endpoints: Endpoints = pool.endpoints
        self.control_url: str = pool.control_url

    def url(self, name: str) -> str:
        """The API's base of one instance, such as ``72b-a100x4/0``."""
        return self.endpoints.instances[name].url

    def set_faults(self, *faults: Mapping[str, Any]) -> None:
        """Replace all faults, each in the words of a fault script; without any, all is well again.

        Returns once they are in force. Raises ``ConfigError`` with what does not hold, changing nothing.
        """
        script = parse(FaultScript, {"faults": [dict(fault) for fault in faults]}, where="faults")
        self._call(self._pool.set_faults(script))

    def sight(self) -> dict[str, Sight]:
        """Every instance now, from the inside."""

        async def look() -> dict[str, Sight]:
            return self._pool.sight()

        return self._call(look())

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_END_S)


@contextmanager
def serve_mock(
    pool: Pool,
    *,
    time_scale: float = 1.0,
    base_port: int = 0,
    faults: FaultScript | None = None,
    seed: int = 0,
    tiers: Sequence[str] = (),
) -> Iterator[MockTier]:
    """Serve every instance of ``pool`` (or of ``tiers``) until the block ends.

    ``time_scale`` is how many virtual seconds pass in a real one. Ports are ``base_port`` and those after
    it, by default free ones. ``seed`` decides texts and lengths by prompt and model, and whom faults hit.
    Raises ``ServerError`` with a port that is taken, ``ConfigError`` for what ``MockPool`` refuses and for
    targets of faults that the pool does not have.
    """
    if faults is not None:
        faults.check(pool)
    loop = new_event_loop()
    thread = threading.Thread(target=_run, args=(loop,), name="mock-tier", daemon=True)
    thread.start()

    async def bind() -> MockPool:
        return MockPool(pool, time_scale=time_scale, base_port=base_port, seed=seed, tiers=tiers)

    async def start(served: MockPool) -> None:
        await served.start()
        if faults is not None:
            await served.set_faults(faults)

    try:
        served = asyncio.run_coroutine_threadsafe(bind(), loop).result()
        try:
            compile_kernels(pool.tiers[0])
            asyncio.run_coroutine_threadsafe(start(served), loop).result()
            yield MockTier(served, loop)
        finally:
            asyncio.run_coroutine_threadsafe(served.close(), loop).result(_END_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_END_S)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
