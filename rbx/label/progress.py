"""What the stages of labelling report while they run, without knowing who shows it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Lines of work that advance side by side, such as one model each."""

    def say(self, text: str) -> None:
        """Tell what is being done now."""

    def line(self, name: str, total: int, done: int) -> None:
        """Begin a line of ``total`` units of which ``done`` were there already."""

    def advance(self, name: str, units: int, failed: int) -> None:
        """``units`` more of a line are done, ``failed`` of them without a result."""


class Silent:
    """Shows nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def line(self, name: str, total: int, done: int) -> None:
        """Nothing."""

    def advance(self, name: str, units: int, failed: int) -> None:
        """Nothing."""
