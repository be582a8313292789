"""What later stages see of the answers: the last row of each pair, in an order of their own."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from rbx.errors import DatasetError
from rbx.label.answer import stub_of
from rbx.label.answer_book import AnswerBook
from rbx.label.answer_row import AnswerRow, Pair, row_of_answer, row_of_error
from rbx.label.completion import Completion
from rbx.label.journal import Journal
from tests.label.broadcasting import questions

DIGESTS = {"large": "d1", "small": "d2"}
ASKED = {question.prompt_id: question for question in questions(5)}


def ok(prompt: int, model: str, text: str, digest: str | None = None, finish: str = "stop") -> AnswerRow:
    pair = Pair(f"id{prompt:04}", model, digest or DIGESTS[model])
    return row_of_answer(pair, Completion(text, finish, 7, 3, "served"), None)


def write(path: Path, rows: list[AnswerRow]) -> Path:
    with Journal(path) as journal:
        for row in rows:
            journal.append(row._asdict())
    return path


def test_answers_come_by_prompt_then_model_whatever_the_order_of_landing(tmp_path: Path) -> None:
    landed = [ok(prompt, model, f"{model} to {prompt}") for prompt in range(5) for model in DIGESTS]
    random.Random(0).shuffle(landed)
    with Journal(write(tmp_path / "a.jsonl", landed)) as journal, AnswerBook(journal, DIGESTS, ASKED) as book:
        found = [(answer.question.prompt, answer.model, answer.response) for answer in book.answers()]
        assert found == [
            (f"prompt {prompt}", model, f"{model} to {prompt}") for prompt in range(5) for model in DIGESTS
        ]
        assert list(book.stubs) == [stub_of(answer) for answer in book.answers()]
        assert book.load(7).response == "small to 3"
        assert [(row.prompt_id, row.model) for row in book.rows()] == [
            (prompt_id, model) for prompt_id in ASKED for model in DIGESTS
        ]


def test_of_two_rows_of_a_pair_the_later_counts_and_of_other_recipes_none(tmp_path: Path) -> None:
    landed = [
        row_of_error(Pair("id0000", "large", "d1"), "HTTP 500"),
        ok(1, "large", "first", finish="length"),
        ok(0, "large", "mended"),
        ok(1, "large", "second"),
        ok(0, "small", "old recipe", digest="d0"),
        ok(1, "small", " "),
        row_of_error(Pair("id0002", "small", "d2"), "HTTP 400"),
        ok(3, "small", "cut", finish="length"),
        row_of_answer(Pair("unknown", "small", "d2"), Completion("x", "stop", 1, 1, None), None),
        row_of_answer(Pair("id0000", "gone", "d3"), Completion("x", "stop", 1, 1, None), None),
    ]
    with Journal(write(tmp_path / "a.jsonl", landed)) as journal, AnswerBook(journal, DIGESTS, ASKED) as book:
        assert [answer.response for answer in book.answers()] == ["mended", "second", "cut"]
        assert [row.status for row in book.rows()] == ["ok", "ok", "empty", "error", "ok"]
        assert book.status("id0000", "small") is None
        large, small = book.counts()["large"], book.counts()["small"]
        assert (large.ok, large.empty, large.error, large.missing, large.truncated) == (2, 0, 0, 3, 0)
        assert (small.ok, small.empty, small.error, small.missing, small.truncated) == (1, 1, 1, 2, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"status": "fine"},
        {"text": None},
        {"prompt_id": 7},
        {"more": 1},
        {"output_tokens": "3"},
        {"input_tokens": -1},
        {"finish_reason": "content_filter"},
        {"tokens_source": "guess"},
    ],
)
def test_a_row_that_is_no_answer_is_named(tmp_path: Path, change: dict[str, Any]) -> None:
    with Journal(tmp_path / "a.jsonl") as journal:
        journal.append(ok(0, "large", "x")._asdict())
        offset = journal.append(ok(1, "large", "x")._asdict() | change)
        with pytest.raises(DatasetError, match=rf"a\.jsonl, byte {offset}: the row "):
            AnswerBook(journal, DIGESTS, ASKED)
