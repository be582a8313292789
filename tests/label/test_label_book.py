"""Scores in their journal: which of them stand, and what no journal of ours can hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbx.errors import DatasetError
from rbx.label.answer import Answer, Question, Verdict, stub_of
from rbx.label.journal import Journal
from rbx.label.label_book import LabelBook

QUESTION = Question("p", "How much is 2 plus 3?", "sums", None, "5", None, False, 6)
ANSWER = Answer(QUESTION, "m", "5", 1, "stop")
OK = Verdict(1.0, "ok", "right")


def test_a_score_stands_only_for_what_it_was_scored_against(tmp_path: Path) -> None:
    key = "numeric", stub_of(ANSWER)
    with Journal(tmp_path / "labels.jsonl") as journal:
        book = LabelBook(journal, {"numeric": "d"})
        book.add(book.row(key, OK))
        assert book.has(key)
        others = [
            ANSWER._replace(response="6"),
            ANSWER._replace(output_tokens=500),
            ANSWER._replace(question=QUESTION._replace(reference="4")),
            ANSWER._replace(question=QUESTION._replace(reference=None)),
            ANSWER._replace(question=QUESTION._replace(tests="assert f() == 5")),
            ANSWER._replace(question=QUESTION._replace(is_harmful=True)),
            ANSWER._replace(question=QUESTION._replace(source="other")),
        ]
        assert not any(book.has(("numeric", stub_of(other))) for other in others)
        assert not LabelBook(journal, {"numeric": "another"}).has(key)


def test_that_a_signal_does_not_apply_is_found_out_anew(tmp_path: Path) -> None:
    key = "numeric", stub_of(ANSWER)
    missing = Verdict(None, "missing", "no reference")
    with Journal(tmp_path / "labels.jsonl") as journal:
        book = LabelBook(journal, {"numeric": "d"})
        book.note_missing(key, missing)
        assert list(book.verdicts([key])) == [(key, missing)]
        assert not book.has(key)
        assert not list(LabelBook(journal, {"numeric": "d"}).verdicts([key]))


@pytest.mark.parametrize(
    "change",
    [
        {"score": 7},
        {"score": float("nan")},
        {"score": None},
        {"score": "1"},
        {"score": True},
        {"status": "zz"},
        {"status": "judge_failed"},
        {"reason": 3},
        {"reason": "a\ud800b"},
        {"metric": ["numeric"]},
        {"prompt_id": None},
        {"more": 1},
    ],
)
def test_a_row_that_was_tampered_with_is_refused_by_its_place(tmp_path: Path, change: dict[str, Any]) -> None:
    with Journal(tmp_path / "labels.jsonl") as journal:
        book = LabelBook(journal, {"numeric": "d"})
        journal.append(book.row(("numeric", stub_of(ANSWER)), OK) | change)
        with pytest.raises(DatasetError, match=r"labels\.jsonl, byte 0: the row .*delete the line"):
            LabelBook(journal, {"numeric": "d"})


def test_a_row_nested_beyond_reading_is_damage_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_bytes(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n")
    with Journal(path) as journal, pytest.raises(DatasetError, match=r"line 1: damaged"):
        LabelBook(journal, {})
