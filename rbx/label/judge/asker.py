"""Whom a judge's prompts go to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rbx.label.judge.reply import Reply


class Asker(Protocol):
    """One language model; both its calls work inside one event loop."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """All of it that bears on what it replies, as plain values: never an address or a key."""

    async def ask(self, prompt: str) -> Reply:
        """One reply within a deadline; raises ``JudgeFault`` where there is none."""

    async def alive(self) -> bool:
        """Whether it answers now."""

    async def close(self) -> None:
        """Release connections."""
