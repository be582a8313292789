"""Steps recorded so far, from whichever source, and the trace file that they become."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rbx.engine.step_trace import STEP_TRACE, write_step_trace
from rbx.errors import DatasetError

Columns = dict[str, NDArray[Any]]


class StepSource(Protocol):
    """Where executed steps come from."""

    def take(self) -> tuple[Columns, int]:
        """Columns of a step trace for the steps since the last call, and how many were lost."""
        ...

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        ...

    def describe(self) -> dict[str, Any]:
        """What the source knows of the server: notes for the trace."""
        ...


class Recording:
    """Everything that a source has given since the start."""

    def __init__(self, source: StepSource) -> None:
        """Start with no steps; what the source held before is not part of it."""
        self._source = source
        self._parts: list[Columns] = []
        self.steps = 0
        self.lost = 0
        source.take()

    @property
    def ended(self) -> bool:
        """Whether the server has ended."""
        return self._source.ended

    def collect(self) -> int:
        """Take what is new; returns how many steps there are now."""
        columns, lost = self._source.take()
        rows = len(columns["start_s"])
        if rows:
            self._parts.append(columns)
        self.steps += rows
        self.lost += lost
        return self.steps

    def write(self, path: Path, notes: Mapping[str, Any]) -> None:
        """Write the trace; raises ``DatasetError`` if there are no steps or a row does not hold."""
        if not self._parts:
            raise DatasetError(
                "not one step was recorded; send the server requests while it is observed, or use --drive"
            )
        whole = {
            name: np.concatenate([part[name] for part in self._parts])
            for name in STEP_TRACE.names
            if name in self._parts[0]
        }
        write_step_trace(path, whole, {**self._source.describe(), **notes, "lost_steps": self.lost})
