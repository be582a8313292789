"""Questions and answers of a finished grid, to be scored again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from rbx.grid.tables import Tables
from rbx.label.answer import Answer, Question, Stub, stub_of


@dataclass(frozen=True)
class GivenAnswers:
    """Answers that are in memory."""

    stubs: Sequence[Stub]
    answers: Sequence[Answer]

    def load(self, at: int) -> Answer:
        """The answer behind ``stubs[at]``."""
        return self.answers[at]


def given_answers(answers: Sequence[Answer]) -> GivenAnswers:
    """Answers in the order given."""
    return GivenAnswers([stub_of(each) for each in answers], answers)


def questions_of(prompts: pa.Table) -> dict[str, Question]:
    """A grid's prompts by their id."""
    columns = (prompts[name].to_pylist() for name in Question._fields)
    return {row[0]: Question(*row) for row in zip(*columns, strict=True)}


def answers_of(tables: Tables, limit: int | None = None) -> list[Answer]:
    """Answers with a text, to a grid's first ``limit`` prompts, in its order; a synthetic one has none."""
    questions = questions_of(tables.prompts.slice(0, limit))
    fields = ("prompt_id", "model", "response", "output_tokens", "finish_reason", "status")
    rows = zip(*(tables.responses[name].to_pylist() for name in fields), strict=True)
    return [
        Answer(questions[prompt_id], model, response, output_tokens, finish_reason)
        for prompt_id, model, response, output_tokens, finish_reason, status in rows
        if status == "ok" and response and response.strip() and prompt_id in questions
    ]
