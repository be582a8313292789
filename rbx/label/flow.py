"""Much work, a little at a time: a bounded number of tasks fed from one stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def run_bounded(
    items: Iterable[T],
    work: Callable[[T], Awaitable[None]],
    concurrency: int,
    stop: asyncio.Event | None = None,
) -> None:
    """Do ``work`` on every item, at most ``concurrency`` at once, taking items only as they are needed.

    Once ``stop`` is set no further item is taken; those under way are finished. The first exception
    cancels the others and is raised.
    """
    stream = iter(items)

    async def worker() -> None:
        for item in stream:
            await work(item)
            if stop is not None and stop.is_set():
                return

    tasks = [asyncio.create_task(worker()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
