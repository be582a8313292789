"""The final number of an answer, and the score it gets."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.config.labelling import NumericSignal
from rbx.label.answer import Verdict
from rbx.label.signals.numeric import final_number, numeric_signal
from tests.label.signals.answers import answered, scored, verdict

SIGNAL = numeric_signal(NumericSignal(kind="numeric", name="final"))

NUMBERS = [
    ("18", 18),
    ("She makes $18 every day.", 18),
    ("It takes 2 steps.\n\n18.\n", 18),
    ("16 - 3 - 4 = <<16-3-4=9>>9\n#### 9", 9),
    ("#### 9\n\nI hope these 3 steps help!", 9),
    ("#### $1,234.50", 1234.5),
    ("#### **-7**", -7),
    ("#### 1. Eggs\n16\n#### 2. Money\n9 * 2 = 18", 18),  # headings of Markdown
    ("#### Step 3: add\nThe sum is 40", 40),
    (r"So the answer is \boxed{18}, after 3 steps", 18),
    (r"\boxed{\$18{,}000} in 2 years", 18000),
    (r"\boxed{x = \frac{3}{4}} of 5", 0.75),
    (r"first \boxed{3}, then \boxed{4}. 5 left", 4),
    (r"\boxed{\text{eighteen}} or 18", 18),
    (r"a box never closed \boxed{12", 12),
    ("A: 70000", 70000),
    ("The answer is 18, since 20 - 2 = 18 and 3 are left", 18),
    ("The answer is 18. I took 3 steps", 18),
    ("**Answer:** 18 eggs\n\nI used:\n1. addition\n2. patience", 18),
    ('{"reasoning": "16 - 3", "answer": "13"}\nThe 2 steps are simple.', 13),
    ('"answer": "20 * 28 + 10 * 28 = 840 articles of 5 pages"', 840),
    ("The answer is 7 = x", 7),
    ("The answer is 4. No, the answer is 5 of 6", 5),
    ("The answer is unknown, but 3 of 4 say 12", 3),
    ("The answer is:\n\n18", 18),
    ("The answers are 3 and 4", 4),
    ("1,234,567 people", 1234567),
    ("12 345 or 1\u202f000\u00a0000", 1000000),
    (r"12\,345", 12345),
    ("3/4", 0.75),
    ("1 3/4 cups", 1.75),
    (r"\dfrac{1}{8}", 0.125),
    ("5/0", None),
    ("\u22125", -5),
    ("= -5", -5),
    ("-$5", -5),
    ("$-5", -5),
    ("16 - 5 = 11, or 16 -5", 5),  # subtracted, no sign
    ("pages 3-5", 5),
    ("- 5 eggs", 5),  # an item of a list
    (".5", 0.5),
    ("so...18", 18),
    ("20%", 20),
    (r"20\%", 20),
    ("1.2e5", 120000),
    ("1.2 x 10^5", 120000),
    (r"1.2 \times 10^{-2}", 0.012),
    ("1.2 × 10^5", 120000),
    ("€ 18", 18),
    ("18th", 18),
    ("`18`", 18),
    ("(18)", 18),
    ("2, 3", 3),
    ("1e999", None),
    ("H2O and x2", None),
    ("eighteen", None),
    ("", None),
    ("\u0664\u0662", None),  # digits of another script
]


@pytest.mark.parametrize(("text", "number"), NUMBERS)
def test_the_final_number_of_a_text(text: str, number: float | None) -> None:
    found = final_number(text)
    assert found == (None if number is None else pytest.approx(number, rel=1e-12))


def test_scores() -> None:
    answers = [
        answered("It is 18.0", "... #### 18"),
        answered("It is 17", "... #### 18"),
        answered("No idea", "18"),
        answered("18", None),
        answered("18", "  "),
        answered("18", "eighteen"),
    ]
    assert scored(SIGNAL, answers) == [
        Verdict(1.0, "ok"),
        Verdict(0.0, "ok"),
        Verdict(0.0, "ok", "no number in the answer"),
        Verdict(None, "missing", "no reference"),
        Verdict(None, "missing", "no reference"),
        Verdict(None, "missing", "no number in the reference"),
    ]


@pytest.mark.parametrize(("tolerance", "score"), [(0.0, 0.0), (0.009, 0.0), (0.011, 1.0)])
def test_the_tolerance_is_relative_to_the_reference(tolerance: float, score: float) -> None:
    signal = numeric_signal(NumericSignal(kind="numeric", name="n", tolerance=tolerance))
    assert verdict(signal, answered("1010", "1000")).score == score
    assert verdict(signal, answered("-1010", "-1000")).score == score
    assert verdict(signal, answered("0.01", "0")).score == 0.0


def test_the_digest_tells_tolerances_apart() -> None:
    kinds = [NumericSignal(kind="numeric", name="n", tolerance=tolerance) for tolerance in (0.0, 1e-6)]
    assert len({numeric_signal(kind).digest for kind in kinds}) == 2


@settings(deadline=None)
@given(
    whole=st.integers(0, 10**12),
    cents=st.integers(0, 99),
    negative=st.booleans(),
    grouped=st.booleans(),
    frame=st.sampled_from(
        [
            "{}",
            "${}",
            "{}%",
            "{}.",
            "**{}**",
            "#### {}",
            r"\boxed{{{}}}",
            "So it is {} dollars.\n",
            "A: {}",
            "= {}",
        ]
    ),
)
def test_a_number_is_read_whatever_its_dress(
    whole: int, cents: int, negative: bool, grouped: bool, frame: str
) -> None:
    text = ("\u2212" if negative else "") + (f"{whole:,}" if grouped else f"{whole}") + f".{cents:02d}"
    value = float(f"{'-' if negative else ''}{whole}.{cents:02d}")
    assert final_number("We had 3 of 7 at first.\n" + frame.format(text)) == value


@settings(deadline=None)
@given(st.text(alphabet="0123456789.,-/$%#e \n{}\\boxedfrac", max_size=60), st.text(max_size=40))
def test_any_text_gets_one_of_two_scores(response: str, other: str) -> None:
    for text in (response, other):
        alone = verdict(SIGNAL, answered(text, "18"))
        assert alone.score in (0.0, 1.0)
        number = final_number(text)
        if number is not None:
            assert abs(number) < float("inf")


def test_long_runs_of_digits_and_commas_are_read_quickly() -> None:
    for text in (
        "1" * 200_000,
        "1,111" * 40_000,
        "#### " * 40_000,
        "1/" * 100_000,
        "\\boxed{" * 40_000,
        "- " * 100_000,
    ):
        final_number(text)


def lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.mark.shared
def test_agrees_with_the_published_grading_of_5276_solutions(shared_data: Path) -> None:
    graded = [
        (row["ground_truth"], each["solution"], each["is_correct"])
        for row in lines(shared_data / "gsm8k" / "example_model_solutions.jsonl.gz")
        for each in row.values()
        if isinstance(each, dict)
    ]
    verdicts = scored(SIGNAL, [answered(solution, truth) for truth, solution, _ in graded])
    assert len(graded) == 5276
    assert {correct for _, _, correct in graded} == {True, False}
    assert [v.score for v in verdicts] == [float(correct) for _, _, correct in graded]


@pytest.mark.shared
def test_reads_the_chat_answers_of_28_models_as_well_as_their_graders_do(shared_data: Path) -> None:
    """ZeroEval's grader takes the first number in the answer's JSON.

    Nearly all disagreements are right answers that it does not read: a sum that is shown, no or bad JSON.
    """
    folder = shared_data / "zeroeval_wide"
    references = {
        row["prompt_id"]: row["reference"]
        for row in lines(folder / "prompts.jsonl.gz")
        if row["dataset"] == "gsm"
    }
    rows = [row for row in lines(folder / "grid.jsonl.gz") if row["prompt_id"] in references]
    assert len(rows) == 1319 * 28
    verdicts = scored(SIGNAL, [answered(row["response"], references[row["prompt_id"]]) for row in rows])
    wrongly_failed = sum(
        row["score"] > v.score for row, v in zip(rows, verdicts, strict=True) if v.score is not None
    )
    passed_anew = sum(
        row["score"] < v.score for row, v in zip(rows, verdicts, strict=True) if v.score is not None
    )
    assert wrongly_failed <= 10
    assert (wrongly_failed + passed_anew) / len(rows) < 0.005


@pytest.mark.shared
def test_every_reference_of_gsm8k_holds_the_number_after_its_mark(shared_data: Path) -> None:
    for name, count in (("train", 7473), ("test", 1319)):
        rows = lines(shared_data / "gsm8k" / f"{name}.jsonl.gz")
        assert len(rows) == count
        for row in rows:
            marked = row["answer"].rsplit("####", 1)[1].strip().replace(",", "")
            assert final_number(row["answer"]) == float(marked)
