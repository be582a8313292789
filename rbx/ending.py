"""The signals that ask a long command for its end: Ctrl-C, SIGTERM, and the SIGHUP of a closed terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import FrameType
from typing import Any, NoReturn

_HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none


@contextmanager
def on_ending(asked: Callable[[], object]) -> Iterator[None]:
    """Call ``asked`` at each signal that asks for the end, in its handler, until the block ends.

    A terminal that closes is told of more than once, by the system and by the shell: SIGHUP asks only where
    nothing has asked before, so that it never hurries an end. What is said afterwards to a terminal that is
    gone is lost. Where SIGHUP is ignored (``nohup``) it stays so; SIGINT, which a shell ignores for its
    background jobs, does not: whoever sends it means this command. Outside the main thread signals are left
    alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal heard
        if number == _HANGUP:
            _forsake_terminal()
            if heard:
                return
        heard = True
        asked()

    before: dict[int, Any] = {
        number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    if _HANGUP is not None and signal.getsignal(_HANGUP) != signal.SIG_IGN:
        before[_HANGUP] = signal.signal(_HANGUP, on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def on_ending_in_loop(asked: Callable[[], object]) -> AbstractContextManager[None]:
    """``on_ending``, with ``asked`` called within the running event loop."""
    return on_ending(partial(asyncio.get_running_loop().call_soon_threadsafe, asked))


def interrupt() -> NoReturn:
    """For ``on_ending``: break off where the signal falls."""
    raise KeyboardInterrupt


def leave_ending_to_parent() -> None:
    """In a worker process: what a terminal sends to all of its processes is for the one who started this."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if _HANGUP is not None:
        signal.signal(_HANGUP, signal.SIG_IGN)


def _forsake_terminal() -> None:
    """Writing to a terminal that is gone fails; from now on it goes nowhere instead."""
    for stream in (1, 2):
        try:
            os.write(stream, b"")
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream)
            os.close(nowhere)
