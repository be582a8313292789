"""Ctrl-C on asynchronous work: once to finish what is under way, twice to leave it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from rbx.ending import on_ending_in_loop
from rbx.label.progress import Progress

Work = Callable[[asyncio.Event], Coroutine[Any, Any, None]]


def run_until_interrupted(work: Work, progress: Progress) -> bool:
    """Run ``work`` in a loop of its own; returns False where it was interrupted.

    The event that ``work`` gets is set at the first signal of ``on_ending``, of which ``progress`` tells; the
    second cancels it.
    """
    return asyncio.run(_run(work, progress))


async def _run(work: Work, progress: Progress) -> bool:
    stop = asyncio.Event()
    task = asyncio.create_task(work(stop))

    def interrupted() -> None:
        if stop.is_set():
            task.cancel()
        else:
            stop.set()
            progress.say("finishing what is under way; Ctrl-C again leaves it")

    try:
        with on_ending_in_loop(interrupted):
            await task
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
    return not stop.is_set()
