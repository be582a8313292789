"""``rbx build-dataset`` for source ``label``: collect, broadcast, score, assemble; each stage resumes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rbx.config.base import Loaded
from rbx.config.labelling import LabelSource
from rbx.config.pool import load_pool
from rbx.errors import ConfigError, ServerError, UsageError
from rbx.grid.build import Built, write_harvest
from rbx.grid.spec import DatasetSpec
from rbx.grid.store import refuse_place
from rbx.label.answer import Question
from rbx.label.answer_book import AnswerBook
from rbx.label.broadcast import broadcast
from rbx.label.chosen import only_judges
from rbx.label.harvest import harvest_labels
from rbx.label.interrupt import run_until_interrupted
from rbx.label.journal import Journal
from rbx.label.judge.build import build_judge
from rbx.label.label_book import LabelBook
from rbx.label.offline_vllm import generate_offline
from rbx.label.preflight import check_judges, judges_to_come
from rbx.label.progress import Progress
from rbx.label.prompts.collect import Collected
from rbx.label.recipe import digests
from rbx.label.scoring import Scoring, run_scoring
from rbx.label.signals.build import build_signals
from rbx.label.workspace import Workspace

Until = Literal["prompts", "answers", "grid"]


@dataclass(frozen=True)
class LabelOptions:
    """What the command line asks of one run; no ``judges`` means all of the spec's."""

    until: Until = "grid"
    judges: tuple[str, ...] = ()
    offline_vllm: bool = False
    retry_failed: bool = False
    force: bool = False
    work: Path | None = None  # where rows are kept; default: beside the grid


@dataclass(frozen=True)
class Outcome:
    """How far a run came: ``built`` is None where it ended before the grid."""

    workspace: Workspace
    collected: Collected
    built: Built | None = None
    interrupted: bool = False


def label_grid(
    loaded: Loaded[DatasetSpec], folder: Path, options: LabelOptions, progress: Progress
) -> Outcome:
    """Run the stages that are not done yet.

    Raises ``UsageError`` and ``ConfigError`` where options or spec do not hold, ``DatasetError`` for a bad
    source or a full disk, ``ServerError`` where a server is not what the spec says or has gone; what was
    done is kept.
    """
    refuse_place(folder)
    source = chosen_source(loaded.value, options.judges)
    signals = (
        build_signals(source, source.generation.max_tokens, build_judge) if options.until == "grid" else []
    )
    workspace = Workspace(folder, options.work)
    taken_up = workspace.answers.is_file()
    with Journal(workspace.answers) as answers, Journal(workspace.labels) as labels:
        collected = workspace.collected(source.prompts, progress)
        outcome = Outcome(workspace, collected)
        if options.until == "prompts":
            return outcome
        scores = LabelBook(labels, {signal.name: signal.digest for signal in signals})
        asyncio.run(check_judges(judges_to_come(source, scores)))
        if not _ask(source, collected.questions, answers, options, progress):
            return replace(outcome, interrupted=True)
        if options.until == "answers":
            return outcome
        progress.say("reading the answers")
        named = digests(source, offline=options.offline_vllm)
        by_id = {question.prompt_id: question for question in collected.questions}
        with AnswerBook(answers, named, by_id) as book:
            _refuse_silence(book, workspace)
            if not run_scoring(Scoring(book, scores, options.retry_failed), signals, progress):
                return replace(outcome, interrupted=True)
            harvest = harvest_labels(source, collected, book, scores, signals)
        built = write_harvest(loaded, harvest, folder, progress.say, force=options.force, succeeds=taken_up)
        return replace(outcome, built=built)


def _refuse_silence(book: AnswerBook, workspace: Workspace) -> None:
    """A grid without a single answer helps nobody; raises ``ServerError`` with what the first failed of."""
    if not book.stubs:
        why = next((row.error or "an empty answer" for row in book.rows()), "nothing was asked")
        raise ServerError(
            f"no model answered any prompt; the first: {why}. Mend that and run again with --retry-failed; "
            f"what came back is in {workspace.answers}"
        )


def chosen_source(spec: DatasetSpec, judges: Sequence[str]) -> LabelSource:
    """The spec's source, with the judges that were asked for alone.

    Raises ``UsageError`` for another kind of source or an unknown judge, ``ConfigError`` where the models
    are not the pool's.
    """
    source = spec.source
    if not isinstance(source, LabelSource):
        raise UsageError(f"{spec.name}: only source.kind label asks models and judges; this is {source.kind}")
    if source.pool is not None:
        there = {model.name for model in source.models}
        if lacking := [name for name in load_pool(source.pool).value.models if name not in there]:
            raise ConfigError(f"source.models: {', '.join(lacking)} of pool {source.pool} is not among them")
    chosen = only_judges(source, judges, rules=True)
    if source.quality not in [signal.name for signal in chosen.signals]:
        raise UsageError(f"--judge: signal {source.quality}, the grid's quality, needs a judge left out")
    return chosen


def _ask(
    source: LabelSource,
    questions: Sequence[Question],
    journal: Journal,
    options: LabelOptions,
    progress: Progress,
) -> bool:
    """Get the answers that are lacking; False where Ctrl-C ended it."""
    make = generate_offline if options.offline_vllm else broadcast

    async def work(stop: asyncio.Event) -> None:
        await make(questions, source, journal, progress, stop, retry_failed=options.retry_failed)

    return run_until_interrupted(work, progress)
