"""``rbx build-dataset`` and ``rbx dataset`` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rbx.cli.main import run
from tests.grid.test_store import resign
from tests.workplace import ROOT

SPECS = ROOT / "experiments" / "datasets"


@pytest.fixture
def grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    folder = tmp_path / "grid"
    code = run(
        ["build-dataset", str(SPECS / "quickstart.yaml"), "--out", str(folder), "--set", "source.n=150"]
    )
    assert code == 0
    printed = capsys.readouterr().out
    assert "quickstart (synthetic)" in printed
    assert "600 of 600 present" in printed
    return folder


def test_the_default_directory_is_named_after_the_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["build-dataset", str(SPECS / "quickstart.yaml"), "--set", "source.n=20", "--json"]
    assert run(arguments) == 0
    first = json.loads(capsys.readouterr().out)
    assert (tmp_path / "datasets" / "quickstart" / "labels.parquet").is_file()
    assert first["folder"] == "datasets/quickstart"
    assert (first["written"], first["counts"]["prompts"], first["synthetic"]) == (True, 20, True)
    assert first["sources"]["source.n"] == "--set"
    assert first["sources"]["source.preset"] == "file"
    assert run(arguments) == 0
    again = json.loads(capsys.readouterr().out)
    assert not again["written"]
    assert again["digest"] == first["digest"]


def test_another_grid_is_kept_without_force(grid: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["build-dataset", str(SPECS / "quickstart.yaml"), "--out", str(grid), "--set", "source.n=40"]
    assert run(arguments) == 1
    assert "replace it with --force" in capsys.readouterr().err
    assert run([*arguments, "--force"]) == 0
    assert "160 of 160 present" in capsys.readouterr().out


def test_a_directory_inside_a_grid_is_refused_first_of_all(
    grid: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = str(grid / "inner")
    assert run(["build-dataset", str(SPECS / "quickstart.yaml"), "--out", inner]) == 1
    assert "lies within the grid" in capsys.readouterr().err
    assert not (grid / "inner").exists()


def test_show_as_a_table_and_as_json(grid: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dataset", "show", str(grid)]) == 0
    table = capsys.readouterr().out
    assert "quickstart (SYNTHETIC)" in table
    assert "Calibration of the synthetic labels" in table
    for model in ("Qwen2.5-3B", "Qwen2.5-7B", "Qwen2.5-14B", "Qwen2.5-72B"):
        assert model in table
    assert run(["dataset", "show", str(grid), "--split", "test", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["synthetic"] is True
    assert document["prompts"] == document["test"] < 150
    assert len(document["models"]) == 4
    assert document["oracle"] > document["best_single"] > document["random"] > 0
    assert {target["name"] for target in document["calibration"]} >= {"share of zero scores"}


def test_show_of_a_metric_that_is_not_there(grid: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dataset", "show", str(grid), "--metric", "style"]) == 1
    assert "no metric 'style'; the grid has quality" in capsys.readouterr().err


def test_check_says_so_by_its_exit_code(grid: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dataset", "check", str(grid)]) == 0
    assert "quickstart holds, 0 warning(s)" in capsys.readouterr().out
    labels = pq.read_table(grid / "labels.parquet")
    scores = labels["score"].to_pylist()
    scores[6] = 3.0
    resign(grid, "labels.parquet", labels.set_column(3, "score", pa.array(scores)))
    assert run(["dataset", "check", str(grid)]) == 1
    assert "fault: labels.parquet, row 7, column score: 3.0 is not in [0, 1]" in capsys.readouterr().out
    assert run(["dataset", "check", str(grid), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    assert [(each["row"], each["column"]) for each in document["faults"]] == [(7, "score")]
    assert run(["dataset", "show", str(grid)]) == 1
    assert "row 7, column score" in capsys.readouterr().err


def test_a_check_of_nothing_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dataset", "check", str(tmp_path)]) == 1
    assert "not a grid" in capsys.readouterr().err


def test_a_source_that_is_not_set_and_a_key_that_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zeroeval = str(SPECS / "zeroeval-qwen25.yaml")
    assert run(["build-dataset", zeroeval, "--out", str(tmp_path / "grid")]) == 1
    assert "--set source.path=DIR" in capsys.readouterr().err
    assert run(["build-dataset", zeroeval, "--set", "source.pth=x"]) == 1
    assert "source.pth: Extra inputs are not permitted" in capsys.readouterr().err
    assert not (tmp_path / "grid").exists()


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_spec_is_valid(path: Path) -> None:
    from rbx.config.base import read_yaml
    from rbx.grid.spec import load_spec
    from rbx.label.chosen import load_judging

    if "source" in read_yaml(path):
        assert load_spec(path).value.description
    else:
        assert load_judging(path).judges


def test_a_table_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "answers.csv").write_text(
        "prompt,model,score,response,output_tokens\nhi,small,0,hello,3\nhi,large,1,good day,4\n"
    )
    code = run(
        [
            "build-dataset",
            str(SPECS / "table-long.yaml"),
            "--out",
            str(tmp_path / "mine"),
            *("--set", "name=mine", "--set", f"source.path={tmp_path / 'answers.csv'}"),
        ]
    )
    assert code == 0
    printed = capsys.readouterr().out
    assert "2 of 2 present" in printed
    assert "0 prompts dropped for an equal text, 0 of them scored otherwise" in printed
    assert "tokens estimated: characters / 4" in printed
    assert run(["dataset", "check", str(tmp_path / "mine")]) == 0
    printed = capsys.readouterr().out
    assert "warning: prompts.parquet, column split: no " in printed
    assert "warning: prompts.parquet, column input_tokens: estimated: characters / 4; costs" in printed
    assert run(["dataset", "show", str(tmp_path / "mine")]) == 0
    assert "1 input tokens on average (estimated: characters / 4)" in capsys.readouterr().out
    assert run(["dataset", "show", str(tmp_path / "mine"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["input_tokens_origin"] == "estimated: characters / 4"
    assert "- input tokens: estimated: characters / 4\n" in (tmp_path / "mine" / "README.md").read_text()


def test_missing_labels_are_told_by_model_without_a_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "answers.csv").write_text(
        "prompt,model,score,response,output_tokens\n"
        + "".join(
            f"p{row},{model},{'' if model == 'large' else 1},yes,3\n"
            for row in range(8)
            for model in ("small", "large")
        )
    )
    spec, out = str(SPECS / "table-long.yaml"), str(tmp_path / "mine")
    assert run(["build-dataset", spec, "--out", out, "--set", f"source.path={tmp_path / 'answers.csv'}"]) == 0
    capsys.readouterr()
    assert run(["dataset", "check", out]) == 0
    told = capsys.readouterr().out.splitlines()
    warned = [line for line in told if "missing" in line and line.startswith("warning")]
    assert warned == ["warning: labels.parquet, column score: 8 of 16 labels are missing: large 8 of 8"]
    assert "quality of large, missing: 8 × no reason given" in told
