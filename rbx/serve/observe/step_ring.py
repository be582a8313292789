"""Executed steps out of a published state's ring, as often as someone comes for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbx.engine.step_trace import STEP_TRACE
from rbx.errors import EngineError
from rbx.serve.plugin.layout import STEP
from rbx.serve.state.published import StateBytes, header_text, limits_of

_NO_STEPS = np.zeros(0, dtype=STEP)


class StepRing:
    """The steps that a server executes from its start on; a ``StepSource`` with all sums.

    The ring holds the last 65,536: whoever comes at least every minute loses none at 1,000 steps/s.
    Raises ``EngineError`` as ``StateBytes`` does.
    """

    def __init__(self, path: Path) -> None:
        """Open the file."""
        self.state = StateBytes(path)
        self.state.require_writer()
        self._notes = _notes(self.state.header)  # the file may be gone by the end
        self._next = 0

    def take(self) -> tuple[dict[str, NDArray[Any]], int]:
        """Columns of all steps since the last call, and how many were overwritten before.

        A file that was cut short gives no more steps; ``ended`` then holds. Raises ``EngineError`` if
        the count of steps went back.
        """
        try:
            views = self.state.views
        except EngineError:
            return {name: _NO_STEPS[name] for name in STEP_TRACE.names}, 0
        end, size = int(views.steps[0]), len(views.ring)
        if end < self._next:
            raise EngineError(f"{self.state.path}: steps is {end} after {self._next}; a count can't go back")
        first = max(self._next, end - size)
        numbers = np.arange(first, end)
        rows = views.ring[numbers % size]
        # A row that was overwritten while it was copied carries another number, or −1.
        whole = rows["number"] == numbers
        lost = first - self._next + int((~whole).sum())
        self._next = end
        return {name: rows[name][whole] for name in STEP_TRACE.names}, lost

    @property
    def ended(self) -> bool:
        """Whether the server has ended or stopped publishing."""
        try:
            self.state.require_writer()
        except EngineError:
            return True
        return False

    def describe(self) -> dict[str, Any]:
        """Model, version and limits as the server published them when the ring was opened."""
        return self._notes


def _notes(header: np.void) -> dict[str, Any]:
    return {
        "source": "rbx.serve.plugin",
        "model": header_text(header, "served_name"),
        "vllm_version": header_text(header, "vllm_version"),
        "engine": limits_of(header).model_dump(),
    }
