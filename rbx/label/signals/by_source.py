"""One metric made of several signals: which of them scores an answer, the prompt's source decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rbx.config.base import digest
from rbx.label.answer import Answer, Signal, Verdict, missing


class BySource:
    """Delegates each answer to the signal of its prompt's source, else to ``otherwise``.

    The delegates are signals of the spec's list and are closed there, not here.
    """

    def __init__(self, name: str, rules: Mapping[str, Signal], otherwise: Signal | None) -> None:
        """``rules`` maps a source to its signal; without ``otherwise`` other sources' scores are missing."""
        self.name = name
        self._rules = dict(rules)
        self._otherwise = otherwise
        self._delegates = [*self._rules.values(), *([otherwise] if otherwise else [])]
        # A call holds back its caller until each delegate has answered: as few as the slowest likes.
        self.batch = min(delegate.batch for delegate in self._delegates)
        self.concurrency = min(delegate.concurrency for delegate in self._delegates)
        self.digest = digest(
            {
                "kind": "by_source",
                "version": 1,
                "rules": {source: delegate.digest for source, delegate in self._rules.items()},
                "otherwise": otherwise.digest if otherwise else None,
            }
        )

    async def score(self, answers: Sequence[Answer]) -> list[Verdict]:
        """One verdict an answer, in their order."""
        places: dict[str, list[int]] = {}
        for place, answer in enumerate(answers):
            places.setdefault(answer.question.source, []).append(place)
        verdicts: dict[int, Verdict] = {}
        for source, mine in places.items():
            delegate = self._rules.get(source, self._otherwise)
            if delegate is None:
                scored = [missing(f"not scored: no rule for source {source}")] * len(mine)
            else:
                scored = await delegate.score([answers[place] for place in mine])
            verdicts.update(zip(mine, scored, strict=True))
        return [verdicts[place] for place in range(len(answers))]

    async def alive(self) -> bool:
        """Whether the judges of all delegates answer now."""
        return all([await each.alive() for each in self._delegates])

    async def close(self) -> None:
        """Nothing of its own is held."""
