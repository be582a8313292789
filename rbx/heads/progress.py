"""How long steps say where they are, without knowing who shows it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called with the stage's name, the units done and their total; stages come one after another."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` units of ``stage`` are finished."""


def silent(stage: str, done: int, total: int) -> None:
    """Show nothing."""
