"""Score the answers that a live sweep was served, next to the scores that the grid looked up for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rbx.durable import write_table
from rbx.errors import StoreError
from rbx.grid.order import natural_order
from rbx.grid.store import read_tables
from rbx.label.answer import Answer, Question, Signal, Stub, Verdict, stub_of
from rbx.label.grid_answers import given_answers, questions_of
from rbx.label.label_book import Key
from rbx.label.progress import Progress
from rbx.label.regrade import score_given
from rbx.sweep.served import FOLDER, LABELS_FILE, SERVED_LABELS, read_served
from rbx.sweep.store import SweepStore

JOURNAL = "labels.jsonl"
VERDICT = ("score", "status", "reason", "raw", "cut")


@dataclass(frozen=True)
class ServedScores:
    """Scores of one metric on one model's served answers; ``mean`` is over the ``scored``."""

    model: str
    metric: str
    answers: int
    scored: int
    failed: int
    mean: float | None


class _Place(NamedTuple):
    cell_id: str
    request: int
    stub: Stub


def judge_served(
    sweep: Path, signals: Sequence[Signal], progress: Progress, *, retry_failed: bool = False
) -> list[ServedScores] | None:
    """Write ``served/labels.parquet``; None where Ctrl-C ended it, with all scores kept.

    The same text of the same model to the same prompt is scored once, wherever it was served. Raises
    ``StoreError`` where the sweep kept no text or its grid is not the one it ran on, ``ServerError`` where
    a judge's server has gone.
    """
    progress.say(f"reading the served answers of {sweep}")
    answers, places = _served(sweep, _questions(sweep))
    given = given_answers(list(answers.values()))
    verdicts = score_given(sweep / FOLDER / JOURNAL, given, signals, progress, retry_failed)
    if verdicts is None:
        return None
    write_table(_table(places, verdicts, signals), sweep / FOLDER / LABELS_FILE)
    return [
        _summary(
            model, signal.name, [verdicts[signal.name, at.stub] for at in places if at.stub.model == model]
        )
        for signal in signals
        for model in natural_order(at.stub.model for at in places)
    ]


def _questions(sweep: Path) -> dict[str, Question]:
    grid = SweepStore(sweep).read_manifest()["grid"]
    folder = Path(grid["path"])
    manifest, tables = read_tables(folder)
    if manifest.digest != grid["digest"]:
        raise StoreError(
            f"{sweep}: ran on a grid with digest {grid['digest'][:12]}; {folder} has {manifest.digest[:12]}"
        )
    return questions_of(tables.prompts)


def _served(sweep: Path, questions: Mapping[str, Question]) -> tuple[dict[Stub, Answer], list[_Place]]:
    answers: dict[Stub, Answer] = {}
    places = []
    for cell_id, table in read_served(sweep):
        for row in table.to_pylist():
            if not (row["response"] or "").strip():
                continue  # not kept, or empty: nothing to score
            question = questions.get(row["prompt_id"])
            if question is None:
                raise StoreError(
                    f"{sweep}: cell {cell_id}, request {row['request']}: prompt {row['prompt_id']!r} is not "
                    "in the sweep's grid"
                )
            answer = Answer(
                question, row["model"], row["response"], row["output_tokens"], row["finish_reason"]
            )
            stub = stub_of(answer)
            answers[stub] = answer
            places.append(_Place(cell_id, row["request"], stub))
    if not places:
        raise StoreError(f"{sweep}: its served answers hold no text; it was not kept, or all are empty")
    return answers, places


def _table(places: Sequence[_Place], verdicts: Mapping[Key, Verdict], signals: Sequence[Signal]) -> pa.Table:
    rows = [
        {
            "cell_id": at.cell_id,
            "request": at.request,
            "prompt_id": at.stub.prompt_id,
            "model": at.stub.model,
            "metric": signal.name,
            "judge_digest": signal.digest,
            **{name: getattr(verdicts[signal.name, at.stub], name) for name in VERDICT},
        }
        for at in places
        for signal in signals
    ]
    return pa.Table.from_pylist(rows, schema=SERVED_LABELS)


def _summary(model: str, metric: str, verdicts: Sequence[Verdict]) -> ServedScores:
    scores = [each.score for each in verdicts if each.score is not None]
    failed = sum(each.status == "judge_failed" for each in verdicts)
    mean = sum(scores) / len(scores) if scores else None
    return ServedScores(model, metric, len(verdicts), len(scores), failed, mean)
