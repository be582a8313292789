"""Something asked again and again in the background, less often while it fails."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from rbx.config.gateway import WATCH_JITTER
from rbx.errors import EngineError
from rbx.serve.watch.fetch import Unanswered

MOST_PERIODS = 8  # between two tries of what keeps failing


class Pace:
    """The period of many beats; another one ends the pauses of the old one, which may be an hour long."""

    def __init__(self, period_s: float) -> None:
        """Beat every ``period_s``."""
        self._period_s = period_s
        self._changed = asyncio.Event()

    def change(self, period_s: float) -> None:
        """Whoever pauses asks at once, and then every ``period_s``. Call it in the loop of the beats."""
        self._period_s = period_s
        self._changed.set()
        self._changed = asyncio.Event()

    async def pause(self, failures: int, rng: random.Random) -> None:
        """Until the next try is due."""
        # Not wait_for: before Python 3.12 that loses a cancellation which comes together with the change.
        changing = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({changing}, timeout=pause_s(failures, self._period_s, rng))
        finally:
            changing.cancel()


async def beat(
    ask: Callable[[], Awaitable[None]],
    failed: Callable[[str], None],
    pace: Pace,
    rng: random.Random,
    asked_once: asyncio.Event,
) -> None:
    """Call ``ask`` for ever; ``failed`` gets the reason of each failure, ``asked_once`` is set after one try.

    A failure is ``Unanswered``, or ``EngineError`` for an answer that can't be used.
    """
    failures = 0
    while True:
        try:
            await ask()
            failures = 0
        except Unanswered as fault:
            failures += 1
            failed(fault.reason)
        except EngineError:
            failures += 1
            failed("invalid")
        finally:
            asked_once.set()
        await pace.pause(failures, rng)


def pause_s(failures: int, period_s: float, rng: random.Random) -> float:
    """Until the next try after so many failures in a row: doubled by the second and each further one."""
    periods = min(2 ** max(0, failures - 1), MOST_PERIODS) if failures < MOST_PERIODS else MOST_PERIODS
    # Not all instances are asked at once.
    return period_s * periods * rng.uniform(1.0 - WATCH_JITTER, 1.0 + WATCH_JITTER)
