"""Much work, a little at a time: a bounded number of tasks fed from one stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import takewhile
from typing import Protocol, TypeVar

T = TypeVar("T")


class StopSign(Protocol):
    """Says whether to take no further work, as an ``asyncio.Event`` does."""

    def is_set(self) -> bool:
        """Whether to stop."""


async def run_bounded(
    items: Iterable[T],
    work: Callable[[T], Awaitable[None]],
    concurrency: int,
    stop: StopSign | None = None,
) -> None:
    """Do ``work`` on every item, at most ``concurrency`` at once, taking items only as they are needed.

    Once ``stop`` is set no further item is taken; those under way are finished. The first exception
    cancels the others and is raised.
    """
    stream = takewhile(lambda _: stop is None or not stop.is_set(), items)

    async def worker() -> None:
        for item in stream:
            await work(item)

    tasks = [asyncio.create_task(worker()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
