"""The scoring stage: every signal on every answer, each score kept the moment it is there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rbx.errors import RbxError, ServerError
from rbx.label.answer import Answers, Signal, Verdict
from rbx.label.flow import run_bounded
from rbx.label.interrupt import run_until_interrupted
from rbx.label.label_book import Key, LabelBook
from rbx.label.outage import Outage
from rbx.label.progress import Progress


@dataclass(frozen=True)
class Scoring:
    """Answers to score and the book that takes the scores; ``retry_failed`` asks failed judgements again."""

    answers: Answers
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


def run_scoring(scoring: Scoring, signals: Sequence[Signal], progress: Progress) -> bool:
    """``score_answers`` in a loop of its own, then close the signals; False where Ctrl-C ended it."""

    async def work(stop: asyncio.Event) -> None:
        try:
            await score_answers(scoring, signals, progress, stop)
        finally:
            await asyncio.gather(*(signal.close() for signal in signals))

    progress.say("scoring the answers")
    return run_until_interrupted(work, progress)


async def _one_signal(scoring: Scoring, signal: Signal, progress: Progress, stop: asyncio.Event) -> None:
    book, stubs = scoring.book, scoring.answers.stubs
    pending = [at for at, stub in enumerate(stubs) if _wanted(scoring, (signal.name, stub))]
    progress.line(signal.name, len(stubs), len(stubs) - len(pending))
    outage = Outage(f"signal {signal.name}", signal.concurrency, book.add)

    async def score(chunk: Sequence[int]) -> None:
        verdicts = await signal.score([scoring.answers.load(at) for at in chunk])
        if len(verdicts) != len(chunk):
            raise RbxError(f"signal {signal.name}: {len(verdicts)} verdicts on {len(chunk)} answers")
        for at, verdict in zip(chunk, verdicts, strict=True):
            row = book.row((signal.name, stubs[at]), verdict)
            if verdict.unreached:
                outage.unreached(row, verdict.reason or "no reason given")
            elif verdict.status == "missing":  # nobody was asked, so nobody was heard
                book.note_missing((signal.name, stubs[at]), verdict)
            else:
                outage.heard(row)
        progress.advance(signal.name, len(chunk), sum(map(_failed, verdicts)))

    await run_bounded(_chunks(pending, signal.batch), score, signal.concurrency, stop)
    if outage.holding and not stop.is_set():
        if not await signal.alive():
            raise ServerError(
                f"signal {signal.name}: no answer to the last {outage.holding} requests, and its server is "
                "gone; the scores so far are kept: bring it back and run the same command again"
            )
        outage.flush()


def _wanted(scoring: Scoring, key: Key) -> bool:
    return not scoring.book.has(key, retry_failed=scoring.retry_failed)


def _failed(verdict: Verdict) -> bool:
    return verdict.status == "judge_failed"


def _chunks(pending: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    return (pending[start : start + size] for start in range(0, len(pending), size))
