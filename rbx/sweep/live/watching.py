"""Who looks on while live cells run."""

from __future__ import annotations

from typing import Protocol

from rbx.load.client.tally import Tally
from rbx.sweep.store import CellSpec, CellSummary


class Onlooker(Protocol):
    """What a live sweep tells as it goes; all calls come from one thread at a time and must be quick."""

    def planned(self, todo: tuple[CellSpec, ...], finished: int) -> None:
        """Once, before the first cell: what will be run, in this order, and how many were finished before."""
        ...

    def begun(self, cell: CellSpec) -> None:
        """A cell is under way."""
        ...

    def phase(self, words: str, *, waiting: bool = False) -> None:
        """What is being done for it; ``waiting`` for servers, which may take as long as they like."""
        ...

    def counted(self, tally: Tally) -> None:
        """Where its requests stand; a few times a second, from another thread."""
        ...

    def ended(self, cell: CellSpec, summary: CellSummary) -> None:
        """It is finished and kept."""
        ...
