"""Ctrl-C on asynchronous work: once to finish what is under way, twice to leave it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from rbx.label.progress import Progress

Work = Callable[[asyncio.Event], Coroutine[Any, Any, None]]


def run_until_interrupted(work: Work, progress: Progress) -> bool:
    """Run ``work`` in a loop of its own; returns False where it was interrupted.

    The event that ``work`` gets is set at the first Ctrl-C or SIGTERM, of which ``progress`` tells; the
    second cancels it. Outside the main thread signals are left alone.
    """
    return asyncio.run(_run(work, progress))


async def _run(work: Work, progress: Progress) -> bool:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    task = asyncio.create_task(work(stop))

    def interrupted() -> None:
        if stop.is_set():
            task.cancel()
        else:
            stop.set()
            progress.say("finishing what is under way; Ctrl-C again leaves it")

    watched: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)
    try:
        for each in watched:
            loop.add_signal_handler(each, interrupted)
    except (RuntimeError, ValueError):  # not the main thread
        watched = ()
    try:
        await task
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
    finally:
        for each in watched:
            loop.remove_signal_handler(each)
    return not stop.is_set()
