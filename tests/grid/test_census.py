"""What became of every answer and label: counted, grouped by reason, and warned of where it matters."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbx.grid.census import Census, Reason
from rbx.grid.harvest import harvest_rows
from rbx.grid.inspection import inspect_grid
from tests.grid.labelled import JUDGE, MODELS, answer, every_status, failed, label, prompt, write


@pytest.fixture
def census(tmp_path: Path) -> Census:
    write(every_status(), tmp_path / "grid")
    inspection = inspect_grid(tmp_path / "grid")
    assert inspection.faults == ()
    return inspection.census


def test_answers_are_counted_by_status_and_by_the_origin_of_their_length(census: Census) -> None:
    small, large = census.answers
    assert (small.ok, small.empty, small.error, small.missing) == (38, 1, 1, 0)
    assert (large.ok, large.empty, large.error, large.missing) == (39, 0, 0, 1)
    assert (small.truncated, small.truncated_share) == (1, 1 / 39)
    assert (small.usage, small.recounted, small.unstated, small.no_length) == (38, 1, 0, 1)
    assert (large.usage, large.no_length) == (39, 1)
    assert small.errors == (Reason("HTTP 500 <boom>", 1),)
    assert small.generations == {"m-1B-digest": 40}


def test_labels_are_counted_with_the_reasons_of_those_that_are_not_there(census: Census) -> None:
    found = {(each.model, each.metric): each for each in census.labels}
    small, large = found["m-1B", "grade"], found["m-7B", "grade"]
    assert (small.present, small.missing, small.judge_failed) == (38, 2, 0)
    assert small.why_missing == (Reason("the answer is empty", 1), Reason("the answer is error", 1))
    assert (large.present, large.missing, large.judge_failed) == (38, 1, 1)
    assert large.why_missing == (Reason("the answer is missing", 1),)
    assert large.why_failed == (Reason("prose", 1),)
    assert large.share == 38 / 40


def test_metrics_name_their_judge_and_what_it_saw_cut(census: Census) -> None:
    exact, grade = census.metrics
    assert (exact.metric, grade.metric) == ("exact", "grade")
    assert grade.judges == {JUDGE: 77}
    assert grade.judged == 77
    assert grade.cut == {"input": 4, "reference": 2}
    assert (grade.values, exact.values, exact.cut) == (11, 2, {})


def test_sources_are_counted_by_split(census: Census) -> None:
    found = {each.source: each for each in census.sources}
    assert set(found) == {"gsm8k", "safety|<b>"}
    assert sum(each.train + each.test for each in found.values()) == 40
    assert found["safety|<b>"].harmful == found["safety|<b>"].train + found["safety|<b>"].test == 14
    assert found["gsm8k"].harmful == 0


def skewed(tmp_path: Path) -> list[str]:
    return [each.what for each in inspect_grid(tmp_path / "grid").warnings if each.rule == "skew"]


def test_a_server_that_fails_on_long_prompts_is_a_warning(tmp_path: Path) -> None:
    n, kept = 200, 170
    answers = [answer(i, "x") if i < kept else failed(i, "x", "429 Too Many Requests") for i in range(n)]
    labels = [label(i, "x", "grade", 0.5 if i < kept else None) for i in range(n)]
    write(harvest_rows([prompt(i) for i in range(n)], answers, labels, {}), tmp_path / "grid")
    told = skewed(tmp_path)
    assert [each.partition(" are not")[0] for each in told] == ["answers", "labels of grade"]
    assert "of the longest prompts (190 to 209 tokens) 0.0% are there" in told[0]
    assert "of the shortest (10 to 29) 100.0%" in told[0]
    (error,) = (each for each in inspect_grid(tmp_path / "grid").warnings if each.rule == "error")
    assert error.what == "30 answers could not be had: x 30"


def test_a_judge_that_fails_on_long_answers_is_a_warning(tmp_path: Path) -> None:
    n = 200
    # The lengths of answers have nothing to do with those of the prompts.
    size = {number: 10 + (number * 77) % n for number in range(n)}
    answers = [answer(i, "x", output_tokens=size[i]) for i in range(n)]
    labels = [
        label(i, "x", "grade", 0.5)
        if size[i] < 180
        else label(i, "x", "grade", None, status="judge_failed", reason="cut JSON", raw='{"score"')
        for i in range(n)
    ]
    write(harvest_rows([prompt(i) for i in range(n)], answers, labels, {}), tmp_path / "grid")
    (told,) = skewed(tmp_path)
    assert told.startswith(
        "judgements of grade are not missing at random: of the longest answers (190 to 209"
    )


def test_what_fails_anywhere_is_no_warning_of_skew(tmp_path: Path) -> None:
    write(every_status(), tmp_path / "grid")
    assert skewed(tmp_path) == []
    assert MODELS == ("m-1B", "m-7B")
