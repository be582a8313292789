"""From journals to a harvest: prompts, every answer that was asked for, and a label for each signal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rbx.config.labelling import LabelSource
from rbx.grid.harvest import Harvest, LabelRow, PromptRow, ResponseRow, harvest_rows
from rbx.label.answer import Question, Signal, missing
from rbx.label.answer_book import AnswerBook
from rbx.label.answer_row import AnswerRow
from rbx.label.judge.record import judge_records
from rbx.label.label_book import LabelBook, label_rows
from rbx.label.prompts.collect import Collected


def harvest_labels(
    source: LabelSource,
    collected: Collected,
    answers: AnswerBook,
    labels: LabelBook,
    signals: Sequence[Signal],
) -> Harvest:
    """Everything that the journals hold of this spec; what was not asked or not scored has no row."""
    responses = [_response(row) for row in answers.rows()]
    scores = list(_labels(signals, answers, labels, [row for row in responses if row.status != "ok"]))
    provenance = {
        "generation": source.generation.model_dump(mode="json"),
        "answers": {model: counts._asdict() for model, counts in answers.counts().items()},
        "scores": {signal.name: _told(signal.name, scores) for signal in signals},
        "signals": {signal.name: signal.digest for signal in signals},
        "judges": judge_records(source),
    }
    questions = [_prompt(question) for question in collected.questions]
    return harvest_rows(questions, responses, scores, collected.provenance | provenance)


def _told(metric: str, rows: Sequence[LabelRow]) -> dict[str, Any]:
    """How many scores of a metric there are and why others are not, and their mean."""
    own = [row for row in rows if row.metric == metric]
    known = [row.score for row in own if row.score is not None]
    return {
        "scored": len(known),
        "missing": sum(row.status == "missing" for row in own),
        "judge_failed": sum(row.status == "judge_failed" for row in own),
        "mean": round(sum(known) / len(known), 6) if known else None,
    }


def _prompt(question: Question) -> PromptRow:
    return PromptRow(
        key=question.prompt_id,
        prompt=question.prompt,
        source=question.source,
        reference=question.reference,
        is_harmful=question.is_harmful,
        input_tokens=question.input_tokens,
        source_id=question.source_id,
        tests=question.tests,
    )


def _response(row: AnswerRow) -> ResponseRow:
    return ResponseRow(
        key=row.prompt_id,
        model=row.model,
        response=row.text,
        output_tokens=row.output_tokens,
        finish_reason=row.finish_reason,
        generation_digest=row.digest,
        status=row.status,
        input_tokens=row.input_tokens,
        tokens_source=row.tokens_source,
        error=row.error,
    )


def _labels(
    signals: Sequence[Signal], answers: AnswerBook, labels: LabelBook, textless: Sequence[ResponseRow]
) -> Iterator[LabelRow]:
    keys = ((signal.name, stub) for signal in signals for stub in answers.stubs)
    yield from label_rows(signals, labels.verdicts(keys))
    for signal in signals:
        for row in textless:
            why = missing("the answer is empty" if row.status == "empty" else "the model gave no answer")
            yield LabelRow(row.key, row.model, signal.name, None, why.status, why.reason, signal.digest)
