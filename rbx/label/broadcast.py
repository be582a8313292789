"""Every question to every model, and each answer kept the moment it lands."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rbx.config.labelling import Generation, LabelSource
from rbx.errors import ServerError
from rbx.label.answer import Question
from rbx.label.answer_book import AnswerBook
from rbx.label.answer_row import AnswerStatus, Pair, row_of_answer, row_of_error
from rbx.label.completion import CompletionError
from rbx.label.flow import StopSign, run_bounded
from rbx.label.journal import Journal
from rbx.label.open_files import allow_open_files
from rbx.label.outage import Outage
from rbx.label.preflight import Line, check_served, prepare_lines
from rbx.label.progress import Progress
from rbx.label.recipe import digests, request_body


class ModelReport(NamedTuple):
    """Rows of one model: kept from earlier runs, and made by this one by status."""

    model: str
    kept: int
    ok: int
    empty: int
    error: int


@dataclass(frozen=True)
class BroadcastReport:
    """What a run did; ``unasked`` pairs are left where it was stopped."""

    models: tuple[ModelReport, ...]
    unasked: int


@dataclass
class Rows:
    """Rows of one model on their way into the journal."""

    model: str
    total: int
    pending: list[Question]
    journal: Journal
    progress: Progress
    made: dict[AnswerStatus, int] = field(default_factory=lambda: {"ok": 0, "empty": 0, "error": 0})

    def begin(self) -> None:
        """Show the line."""
        self.progress.line(self.model, self.total, self.kept)

    def write(self, row: dict[str, Any]) -> None:
        """Append a row and count it."""
        self.journal.append(row)
        self.made[row["status"]] += 1
        self.progress.advance(self.model, 1, int(row["status"] != "ok"))

    @property
    def kept(self) -> int:
        """Rows from earlier runs that stand."""
        return self.total - len(self.pending)

    def report(self) -> ModelReport:
        """What was done."""
        return ModelReport(self.model, self.kept, **self.made)


def open_rows(
    questions: Sequence[Question],
    models: dict[str, str],
    journal: Journal,
    progress: Progress,
    *,
    retry_failed: bool,
) -> list[Rows]:
    """What is still to be asked of ``models`` (model → digest); ``retry_failed`` asks errors again."""
    progress.say("reading the answers so far")
    by_id = {question.prompt_id: question for question in questions}
    with AnswerBook(journal, models, by_id) as book:

        def pending(model: str) -> Iterator[Question]:
            for question in questions:
                status = book.status(question.prompt_id, model)
                if status is None or (retry_failed and status == "error"):
                    yield question

        return [Rows(model, len(questions), list(pending(model)), journal, progress) for model in models]


def report_of(rows: Sequence[Rows]) -> BroadcastReport:
    """The report over all models."""
    unasked = sum(len(each.pending) - sum(each.made.values()) for each in rows)
    return BroadcastReport(tuple(each.report() for each in rows), unasked)


async def broadcast(
    questions: Sequence[Question],
    source: LabelSource,
    journal: Journal,
    progress: Progress,
    stop: asyncio.Event,
    *,
    retry_failed: bool = False,
) -> BroadcastReport:
    """Ask all models at once, each as hard as its endpoint allows, what the journal lacks.

    Once ``stop`` is set no further question is asked; those under way are finished. Raises ``ConfigError``
    for endpoints that can't be used as configured, ``ServerError`` where one does not serve its model or
    has gone, ``DatasetError`` where the journal is damaged or the disk full; the rows so far are kept.
    """
    models = digests(source, offline=False)
    rows = open_rows(questions, models, journal, progress, retry_failed=retry_failed)
    # A model that has all its answers needs neither its server nor its key.
    wanted = [number for number, each in enumerate(rows) if each.pending]
    lines = prepare_lines([(number, source.models[number]) for number in wanted], source.generation.api)
    askings = [
        _Asking(source.generation, line, models[line.candidate.name], rows[line.number]) for line in lines
    ]
    _allow_connections(askings)
    halt = _Halt(stop)
    async with AsyncExitStack() as clients:
        for asking in askings:
            await clients.enter_async_context(asking.line.client)
        progress.say("asking the endpoints what they serve")
        await check_served([asking.line for asking in askings])
        progress.say("asking the models")
        for each in rows:
            each.begin()
        await run_bounded(askings, lambda asking: asking.run(halt), len(askings), halt)
    if halt.faults:
        kept = sum(each.kept + sum(each.made.values()) for each in rows)
        faults = "\n".join(halt.faults)
        raise ServerError(f"{faults}\n{kept:,} answers are kept in {journal.path}")
    return report_of(rows)


def _allow_connections(askings: Sequence[_Asking]) -> None:
    at_once = [min(each.line.client.endpoint.concurrency, len(each.rows.pending)) for each in askings]
    who = ", ".join(f"source.models.{each.line.number}.endpoint" for each in askings)
    allow_open_files(sum(at_once), who)


@dataclass
class _Halt:
    """Stops all models: because the caller says so, or an endpoint has gone."""

    stop: StopSign
    faults: list[str] = field(default_factory=list)

    def is_set(self) -> bool:
        return bool(self.faults) or self.stop.is_set()


@dataclass(frozen=True)
class _Asking:
    """One model being asked."""

    generation: Generation
    line: Line
    digest: str
    rows: Rows

    async def run(self, halt: _Halt) -> None:
        """Ask all that is pending; an endpoint that has gone becomes one of ``halt``'s faults."""
        endpoint = self.line.client.endpoint
        who = f"{self.rows.model} at {endpoint.url}"
        outage = Outage(who, endpoint.concurrency, self.rows.write)

        async def ask(question: Question) -> None:
            await self._ask(question, outage)

        try:
            await run_bounded(self.rows.pending, ask, endpoint.concurrency, halt)
            if outage.holding and not halt.is_set():
                await self._settle(outage, who)
        except ServerError as error:
            halt.faults.append(str(error))

    async def _ask(self, question: Question, outage: Outage) -> None:
        pair = Pair(question.prompt_id, self.rows.model, self.digest)
        body = request_body(self.generation, self.line.candidate, question.prompt)
        try:
            completion = await self.line.client.complete(body)
        except CompletionError as error:
            row = row_of_error(pair, str(error))._asdict()
            if error.blames_request:
                outage.heard(row)
            else:
                outage.unreached(row, str(error))
            return
        outage.heard(row_of_answer(pair, completion, self.line.counter)._asdict())

    async def _settle(self, outage: Outage, who: str) -> None:
        """The last questions failed: write so if the endpoint lives, else leave them to the next run."""
        try:
            await self.line.client.served_models()
        except CompletionError as error:
            raise ServerError(
                f"{who}: no answer to the last {outage.holding} requests, nor now: {error}; "
                "bring the server back and run the same command again"
            ) from None
        outage.flush()
