"""Ctrl-C and SIGTERM as calls within the event loop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def on_signals(called: Callable[[], None]) -> Iterator[None]:
    """Call ``called`` in the running loop at each signal that asks for the end, until the block ends.

    Must be entered in the main thread. A shell starts background jobs with SIGINT ignored; whoever then
    sends it means this command.
    """
    loop = asyncio.get_running_loop()

    def heard(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(called)

    before = {number: signal.signal(number, heard) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
