"""Signals that score one answer by a function of it alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rbx.label.answer import Answer, Verdict


@dataclass(frozen=True)
class PerAnswer:
    """A signal whose verdict is ``rate(answer)``; ``digest`` must name all that ``rate`` depends on."""

    name: str
    digest: str
    rate: Callable[[Answer], Verdict]
    batch: int = 64  # so few that one call is no long pause for the others
    concurrency: int = 1

    async def score(self, answers: Sequence[Answer]) -> list[Verdict]:
        """One verdict an answer, in their order."""
        return [self.rate(answer) for answer in answers]

    async def alive(self) -> bool:
        """Nobody else is asked."""
        return True

    async def close(self) -> None:
        """Nothing is held."""
