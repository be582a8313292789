"""The event loop that servers run on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_log = logging.getLogger(__name__)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it exists."""
    try:
        import uvloop
    except ImportError:  # not on Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run_in_loop(main: Coroutine[Any, Any, T]) -> T:
    """``asyncio.run`` on such a loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


def tell_end(task: asyncio.Task[None]) -> None:
    """For a task that should go on until it is cancelled: one that ends by itself has a fault of its own."""
    if not task.cancelled():
        _log.error("%s has ended", task.get_name(), exc_info=task.exception())
