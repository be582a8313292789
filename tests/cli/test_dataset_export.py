"""``rbx dataset check``, ``show`` and ``export`` on a grid that was labelled, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbx.cli.main import run
from tests.grid.labelled import JUDGE, every_status, write


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    write(every_status(), tmp_path / "grid")
    return tmp_path / "grid"


def test_export_says_what_it_wrote(grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "hub"
    assert run(["dataset", "export", str(grid), "--hf", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "data/train-00000-of-00001.parquet" in printed
    assert f"next: hf upload OWNER/NAME {out} --repo-type dataset" in printed
    assert (out / "README.md").is_file()
    assert run(["dataset", "export", str(grid), "--hf", str(out)]) == 0
    assert f"{out} (unchanged)" in capsys.readouterr().out
    assert run(["dataset", "export", str(grid), "--hf", str(out), "--schema", "routebalance"]) == 1
    assert "replace it with --force" in capsys.readouterr().err
    again = [
        "dataset",
        "export",
        str(grid),
        "--hf",
        str(out),
        "--schema",
        "routebalance",
        "--force",
        "--json",
    ]
    assert run([*again, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["written"] is True
    assert sum(document["prompts"].values()) == 40
    assert "data/test-00000-of-00001.jsonl" in document["files"]


@pytest.mark.parametrize("wrong", [["--schema", "csv"], []])
def test_export_needs_a_target_and_a_known_schema(
    grid: Path, tmp_path: Path, wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    target = ["--hf", str(tmp_path / "out")] if wrong else []
    assert run(["dataset", "export", str(grid), *target, *wrong]) == 2
    assert ("--schema" if wrong else "--hf") in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_check_tells_what_became_of_answers_and_labels(
    grid: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["dataset", "check", str(grid)]) == 0
    told = capsys.readouterr().out.splitlines()
    for line in (
        "lengths of m-1B by origin: usage 38, recount 1",
        "errors of m-1B: 1 × HTTP 500 <boom>",
        "grade of m-1B, missing: 1 × the answer is empty; 1 × the answer is error",
        "grade of m-7B, judge failed: 1 × prose",
        f"grade (stands for quality): judge digest {JUDGE} (77 labels); "
        "judge saw a cut input 5.2%, reference 2.6%",
        "warning: responses.parquet, column status: 1 answers could not be had: m-1B 1",
    ):
        assert line in told
    assert any(line.startswith("answers by prompt length in tokens: 10–13 ") for line in told)


def test_check_as_json_has_the_whole_census(grid: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dataset", "check", str(grid), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["ok"], document["quality"]) == (True, "grade")
    small, large = document["census"]["answers"]
    assert (small["error"], small["recounted"], large["missing"]) == (1, 1, 1)
    assert small["errors"] == [{"text": "HTTP 500 <boom>", "count": 1}]
    exact, grade = document["census"]["metrics"]
    assert grade["judges"] == {JUDGE: 77}
    assert sum(each["prompts"] for each in exact["by_prompt_length"]["deciles"]) == 40


def test_show_takes_what_stands_for_quality_or_another_metric(
    grid: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["dataset", "show", str(grid)]) == 0
    shown = capsys.readouterr().out
    assert "labelled: grade, all prompts" in shown
    assert "metrics: exact, grade (grade stands for quality)" in shown
    assert "gsm8k 26 (" in shown
    assert run(["dataset", "show", str(grid), "--metric", "exact", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["metric"] == "exact"
    assert document["sources"]["gsm8k"] == {
        "train": document["train"] - document["sources"]["safety|<b>"]["train"],
        "test": document["test"] - document["sources"]["safety|<b>"]["test"],
        "harmful": 0,
    }
    assert document["sources"]["safety|<b>"]["harmful"] == 14


def test_an_error_message_can_not_drive_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from rbx.grid.harvest import harvest_rows
    from tests.grid.labelled import answer, failed, label, prompt

    rows = harvest_rows(
        [prompt(0), prompt(1)],
        [failed(0, "x", "\x1b[2J[red]gone"), answer(1, "x")],
        [label(1, "x", "grade", 1.0)],
        {},
    )
    write(rows, tmp_path / "odd")
    assert run(["dataset", "check", str(tmp_path / "odd")]) == 0
    told = capsys.readouterr().out
    assert "\x1b[2J" not in told
    assert "errors of x: 1 × \\x1b[2J[red]gone" in told
