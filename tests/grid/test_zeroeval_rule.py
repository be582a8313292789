"""Grading of ZeroEval's answers, whole and cut: what stands in a text once stays its answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.grid.files import read_rows
from rbx.grid.zeroeval_rule import final_answer, grade

PIECES = (
    '"answer"',
    '"answer": "',
    "answer",
    ":",
    '"',
    "\\",
    "\\n",
    "\n",
    " ",
    ",",
    "{",
    "}",
    "[",
    "]",
    "4",
    "2.5",
    "x",
)


@pytest.mark.parametrize(
    ("text", "value", "rest"),
    [
        ('{"reasoning": "so", "answer": "42"}', "42", "}"),
        ('{"answer": "say \\"hi\\""}\n', 'say "hi"', "}\n"),
        ('{"answer": 4.5 }', "4.5", ""),
        ('{"answer": [1, 2]\n\n}', "[1, 2]", "\n}"),
        ('{"answer": {"a": 1}}', "{'a': 1}", ""),
        ('{"answer": "1"} or {"answer": "2"}', "1", '} or {"answer": "2"}'),
        ('{"answer": "\\bad"}', "\x08ad", "}"),
        ('{"answer": "\\sqrt"}', "\\sqrt", "}"),
    ],
)
def test_the_first_closed_answer_is_the_answer(text: str, value: str, rest: str) -> None:
    found = final_answer(text)
    assert found is not None
    assert (found.value, text[found.end :]) == (value, rest)


@pytest.mark.parametrize("text", ["", "42", 'so "answer": "4', '"answer": 4', '"answer": [1, 2', '"answer"'])
def test_an_answer_that_is_not_closed_is_none(text: str) -> None:
    assert final_answer(text) is None
    assert grade(text, "4", "math-l5") == 0.0


@pytest.mark.parametrize(
    ("answer", "reference", "source", "score"),
    [
        ("1,234 dollars", "1234", "gsm", 1.0),
        ("-3", "3", "math-l5", 0.0),
        ("3.0", "3", "math-l5", 1.0),
        ("none", "3", "math-l5", 0.0),
        ("abc", "'abc'", "crux", 1.0),
        ("a\\nb", "'a\\nb'", "crux", 1.0),
        ("[1, 2]", "[2, 1]", "crux", 0.0),
    ],
)
def test_numbers_are_compared_as_numbers_and_literals_as_written(
    answer: str, reference: str, source: str, score: float
) -> None:
    assert grade(f'{{"answer": "{answer}"}}', reference, source) == score


def test_an_answer_of_brackets_without_end_is_wrong_and_no_fault() -> None:
    text = '{"answer": ' + "[" * 100_000 + "1]}"
    found = final_answer(text)
    assert found is not None
    assert found.value == "[" * 100_000 + "1]"
    assert grade(text, "1", "crux") == 0.0


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_a_part_of_a_text_has_its_answer_from_one_character_on(text: str) -> None:
    whole = final_answer(text)
    for length in range(len(text) + 1):
        part = final_answer(text[:length])
        assert part == (whole if whole is not None and length >= whole.end else None)


@pytest.mark.shared
def test_the_grader_gives_the_published_labels(shared_data: Path) -> None:
    folder = shared_data / "zeroeval_qwen25"
    asked = {row.text("prompt_id"): row for row in read_rows(folder / "prompts.jsonl.gz")}
    agreeing = labels = 0
    for row in read_rows(folder / "grid.jsonl.gz"):
        question = asked[row.text("prompt_id")]
        score = grade(
            row.optional_text("response") or "", question.text("reference"), question.text("dataset")
        )
        labels += 1
        agreeing += score == row.optional_score("score")
    assert (agreeing, labels) == (6068, 6084)
