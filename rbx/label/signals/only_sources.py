"""A signal that leaves the prompts of some sources alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rbx.label.answer import Answer, Signal, Verdict, missing


@dataclass(frozen=True)
class OnlySources:
    """``inner`` for answers to prompts of ``sources``; the others' scores are missing.

    The digest is the inner signal's: where there is a score, it is decided by that alone.
    """

    inner: Signal
    sources: frozenset[str]

    @property
    def name(self) -> str:
        """The metric in the grid."""
        return self.inner.name

    @property
    def digest(self) -> str:
        """SHA-256 of all that decides a score."""
        return self.inner.digest

    @property
    def batch(self) -> int:
        """How many answers one call of ``score`` should get."""
        return self.inner.batch

    @property
    def concurrency(self) -> int:
        """How many calls of ``score`` may run at once."""
        return self.inner.concurrency

    async def score(self, answers: Sequence[Answer]) -> list[Verdict]:
        """One verdict an answer, in their order."""
        asked = [answer for answer in answers if answer.question.source in self.sources]
        scored = iter(await self.inner.score(asked) if asked else ())
        return [
            next(scored) if answer.question.source in self.sources else _not_scored(answer.question.source)
            for answer in answers
        ]

    async def alive(self) -> bool:
        """Whether the inner signal's judge answers now."""
        return await self.inner.alive()

    async def close(self) -> None:
        """Close the inner signal."""
        await self.inner.close()


def _not_scored(source: str) -> Verdict:
    return missing(f"not scored: source {source}")
