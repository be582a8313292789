"""Executed steps out of a published state's ring, as often as someone comes for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbx.engine.step_trace import STEP_TRACE
from rbx.errors import EngineError
from rbx.serve.state.published import StateBytes, limits_of


class StepRing:
    """The steps that a server executes from its start on; a ``StepSource`` with all sums.

    The ring holds the last 65,536: whoever comes at least every minute loses none at 1,000 steps/s.
    Raises ``EngineError`` as ``StateBytes`` does.
    """

    def __init__(self, path: Path) -> None:
        """Open the file."""
        self.state = StateBytes(path)
        self.state.require_writer()
        self._next = 0

    def take(self) -> tuple[dict[str, NDArray[Any]], int]:
        """Columns of all steps since the last call, and how many were overwritten before."""
        views = self.state.views
        end, size = int(views.steps[0]), len(views.ring)
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
        """Model, version and limits as the server published them."""
        header = self.state.header
        return {
            "source": "rbx.serve.plugin",
            "model": header["served_name"].decode(),
            "vllm_version": header["vllm_version"].decode(),
            "engine": limits_of(header).model_dump(),
        }
