"""Executed steps out of a published state's ring, as often as someone comes for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rbx.serve.state.published import StateBytes


@dataclass(frozen=True)
class TakenSteps:
    """New steps in order (N,), fields of ``layout.STEP``; ``lost`` were overwritten before."""

    rows: NDArray[np.void]
    lost: int


class StepRing:
    """The steps that a server executes from now on (from its start with ``from_start``).

    The ring holds the last 65,536: whoever comes at least every minute loses none at 1,000 steps/s.
    Raises ``EngineError`` as ``StateBytes`` does.
    """

    def __init__(self, path: Path, *, from_start: bool = False) -> None:
        """Open the file."""
        self.state = StateBytes(path)
        self._next = 0 if from_start else int(self.state.views.steps[0])

    def take(self) -> TakenSteps:
        """All steps since the last call."""
        views = self.state.views
        end, size = int(views.steps[0]), len(views.ring)
        first = max(self._next, end - size)
        numbers = np.arange(first, end)
        rows = views.ring[numbers % size]
        # A row that was overwritten while it was copied carries another number, or −1.
        whole = rows["number"] == numbers
        taken = TakenSteps(rows[whole], first - self._next + int((~whole).sum()))
        self._next = end
        return taken
