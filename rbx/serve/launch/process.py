"""What a launch supervises, wherever it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Process(Protocol):
    """A started command that ends when it is let go, and in any case with this process."""

    @property
    def name(self) -> str:
        """Unique in its launch."""

    @property
    def log(self) -> Path | str:
        """Where its output goes, for people."""

    @property
    def ending(self) -> str | None:
        """None while it runs, then how it ended: ``ended with exit code 3``."""

    def last_lines(self, count: int) -> list[str]:
        """The end of its log; raises ``OSError`` where that can't be read."""

    def let_go(self) -> None:
        """Ask for its end. Returns at once."""

    async def ended(self) -> None:
        """Wait for the end that was asked for, within a bound."""
