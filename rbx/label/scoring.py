"""The scoring stage: every signal on every answer, each score kept the moment it is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from rbx.errors import RbxError
from rbx.label.answer import Answer, Signal, Verdict
from rbx.label.flow import run_bounded
from rbx.label.label_book import Key, LabelBook, key_of
from rbx.label.outage import Outage
from rbx.label.progress import Progress

Answers = Callable[[], Iterator[Answer]]


@dataclass(frozen=True)
class Scoring:
    """What to score: ``answers`` gives the same stream of ``total`` answers each time it is called."""

    answers: Answers
    total: int
    book: LabelBook
    retry_failed: bool = False


async def score_answers(
    scoring: Scoring, signals: Sequence[Signal], progress: Progress, stop: asyncio.Event
) -> None:
    """Score all answers by all signals, side by side; answers that have their score are passed over.

    Once ``stop`` is set no further answer is taken. Raises ``ServerError`` where a judge's server has
    gone, with all scores so far kept.
    """
    stages = [asyncio.create_task(_one_signal(scoring, each, progress, stop)) for each in signals]
    try:
        await asyncio.gather(*stages)
    finally:
        for stage in stages:
            stage.cancel()
        await asyncio.gather(*stages, return_exceptions=True)


async def _one_signal(scoring: Scoring, signal: Signal, progress: Progress, stop: asyncio.Event) -> None:
    book = scoring.book
    there = sum(1 for key in _keys(scoring, signal.name) if not _wanted(scoring, key))
    progress.line(signal.name, scoring.total, there)
    outage = Outage(f"signal {signal.name}", signal.concurrency, book.add)

    async def score(chunk: list[tuple[Key, Answer]]) -> None:
        verdicts = await signal.score([answer for _, answer in chunk])
        if len(verdicts) != len(chunk):
            raise RbxError(f"signal {signal.name}: {len(verdicts)} verdicts on {len(chunk)} answers")
        for (key, _), verdict in zip(chunk, verdicts, strict=True):
            row = book.row(key, verdict)
            if verdict.unreached:
                outage.unreached(row, verdict.reason or "no reason given")
            else:
                outage.heard(row)
        progress.advance(signal.name, len(chunk), sum(map(_failed, verdicts)))

    pending = (
        (key_of(signal.name, answer), answer)
        for answer in scoring.answers()
        if _wanted(scoring, key_of(signal.name, answer))
    )
    await run_bounded(_chunks(pending, signal.batch), score, signal.concurrency, stop)
    outage.flush()


def _wanted(scoring: Scoring, key: Key) -> bool:
    return not scoring.book.has(key, retry_failed=scoring.retry_failed)


def _keys(scoring: Scoring, metric: str) -> Iterator[Key]:
    return (key_of(metric, answer) for answer in scoring.answers())


def _failed(verdict: Verdict) -> bool:
    return verdict.status == "judge_failed"


def _chunks(pairs: Iterator[tuple[Key, Answer]], size: int) -> Iterator[list[tuple[Key, Answer]]]:
    while chunk := list(islice(pairs, size)):
        yield chunk
