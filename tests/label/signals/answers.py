"""Answers to score, and scoring them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rbx.label.answer import Answer, Question, Signal, Verdict


def answered(
    response: str,
    reference: str | None = None,
    *,
    tests: str | None = None,
    source: str = "some",
    output_tokens: int | None = 10,
) -> Answer:
    question = Question(
        f"{source}, {reference}, {tests}", "a prompt", source, None, reference, tests, False, 3
    )
    return Answer(question, "model", response, output_tokens, "stop")


def scored(signal: Signal, answers: Sequence[Answer]) -> list[Verdict]:
    async def run() -> list[Verdict]:
        try:
            return await signal.score(answers)
        finally:
            await signal.close()

    return asyncio.run(run())


def verdict(signal: Signal, answer: Answer) -> Verdict:
    (only,) = scored(signal, [answer])
    return only
