"""What a signal sees of one answer, what it says of it, and the one interface of all signals."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

Status = Literal["ok", "missing", "judge_failed"]


class Question(NamedTuple):
    """One prompt with what is known about good answers to it."""

    prompt_id: str
    prompt: str
    source: str
    source_id: str | None  # where in its source the prompt stands
    reference: str | None
    tests: str | None
    is_harmful: bool
    input_tokens: int


class Answer(NamedTuple):
    """One model's answer to one question; ``response`` is never empty."""

    question: Question
    model: str
    response: str
    output_tokens: int | None
    finish_reason: str | None


class Stub(NamedTuple):
    """An answer without its texts; ``seen`` is the hash of all that a signal sees of it."""

    prompt_id: str
    model: str
    seen: str


class Answers(Protocol):
    """Answers in an order of their own, read one at a time so that memory need not hold them."""

    @property
    def stubs(self) -> Sequence[Stub]:
        """All of them."""

    def load(self, at: int) -> Answer:
        """The answer behind ``stubs[at]``."""


class Verdict(NamedTuple):
    """A score in [0, 1], or None with a status that says why.

    ``raw`` is what a judge wrote where it could not be read; ``cut`` names the texts that the judge saw
    only the beginning of, such as ``input,reference``. ``unreached`` says that no judge was heard at all:
    the server may have failed rather than this answer.
    """

    score: float | None
    status: Status
    reason: str | None = None
    raw: str | None = None
    cut: str | None = None
    unreached: bool = False


class Signal(Protocol):
    """Scores answers. Its verdict depends on the answer alone, never on the batch it came in."""

    @property
    def name(self) -> str:
        """The metric in the grid."""

    @property
    def digest(self) -> str:
        """SHA-256 of all that decides a score."""

    @property
    def batch(self) -> int:
        """How many answers one call of ``score`` should get."""

    @property
    def concurrency(self) -> int:
        """How many calls of ``score`` may run at once."""

    async def score(self, answers: Sequence[Answer]) -> list[Verdict]:
        """One verdict an answer, in their order."""

    async def alive(self) -> bool:
        """Whether whoever it asks answers now; True where nobody is asked."""

    async def close(self) -> None:
        """Release connections and processes."""


def stub_of(answer: Answer) -> Stub:
    """The stub: its hash changes with the answer's text and length, the reference, the tests, any of it."""
    question = answer.question
    seen = [
        *(question.source, question.reference, question.tests, question.is_harmful),
        *(answer.response, answer.output_tokens, answer.finish_reason),
    ]
    told = json.dumps(seen, separators=(",", ":")).encode()
    return Stub(question.prompt_id, answer.model, hashlib.sha256(told).hexdigest()[:16])


def missing(reason: str) -> Verdict:
    """No score, because the signal does not apply."""
    return Verdict(None, "missing", reason)
