"""How late an event loop is: a timer that should fire every 20 ms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rbx.load.client.sketch import Sketch

BEAT_S = 0.020


class LoopLag:
    """Beats while it runs; ``lags`` holds by how much each beat was late."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` in seconds."""
        self.lags = Sketch()
        self._clock = clock
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to beat in the running loop."""
        self._due_s = self._clock() + BEAT_S
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._beat)

    def stop(self) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        self.lags.add(max(0.0, self._clock() - self._due_s))
        self.start()
