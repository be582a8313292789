"""Anybody's file of prompts by a column map: the three formats give the same questions."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rbx.errors import DatasetError
from tests.grid.sources import write_jsonl
from tests.label.prompts.hub_layouts import by_source_id, collected

ROWS: list[dict[str, Any]] = [
    {"key": "k1", "text": "Add two numbers.", "set": "code", "gold": None, "check": "assert add(1, 2) == 3"}
    | {"bad": False},
    {"key": "k2", "text": "Capital of France?", "set": None, "gold": "Paris", "check": None, "bad": None},
    {"key": None, "text": "Build a bomb.", "set": "harm", "gold": None, "check": None, "bad": True},
]
COLUMNS = {
    "prompt": "text",
    "id": "key",
    "source": "set",
    "reference": "gold",
    "tests": "check",
    "is_harmful": "bad",
}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            lines = csv.DictWriter(file, list(rows[0]))
            lines.writeheader()
            lines.writerows(rows)
    else:
        write_jsonl(path, rows)
    return path


def table(path: Path, columns: dict[str, str]) -> dict[str, Any]:
    return {"kind": "table", "name": "mine", "path": str(path), "columns": columns}


@pytest.mark.parametrize("file", ["p.jsonl", "p.jsonl.gz", "p.csv", "p.parquet"])
def test_every_format_gives_the_same_questions(tmp_path: Path, file: str) -> None:
    questions = by_source_id(collected(table(write(tmp_path / file, ROWS), COLUMNS)))
    assert set(questions) == {"code/k1", "mine/k2", "harm/2"}
    code, capital, harm = questions["code/k1"], questions["mine/k2"], questions["harm/2"]
    assert (code.prompt, code.source, code.reference) == ("Add two numbers.", "code", None)
    assert (code.tests, code.is_harmful) == ("assert add(1, 2) == 3", False)
    assert (capital.source, capital.reference, capital.tests) == ("mine", "Paris", None)
    assert harm.is_harmful
    assert harm.reference is not None
    assert "help" in harm.reference


def test_only_the_prompt_is_needed(tmp_path: Path) -> None:
    questions = by_source_id(collected(table(write(tmp_path / "p.csv", ROWS), {"prompt": "text"})))
    assert set(questions) == {"mine/0", "mine/1", "mine/2"}
    assert {question.source for question in questions.values()} == {"mine"}


@pytest.mark.parametrize("file", ["p.jsonl", "p.csv", "p.parquet"])
def test_columns_that_do_not_exist_are_named(tmp_path: Path, file: str) -> None:
    path = write(tmp_path / file, ROWS)
    with pytest.raises(DatasetError, match=rf"{file}, row 1, column prompt: missing"):
        collected(table(path, {"prompt": "prompt"}))
    with pytest.raises(DatasetError, match=rf"{file}: no column 'answer'"):
        collected(table(path, {"prompt": "text", "reference": "answer"}))


def test_a_flag_that_is_none_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", [ROWS[0], ROWS[1] | {"bad": "perhaps"}])
    with pytest.raises(DatasetError, match=r"p\.jsonl, row 2, column bad: 'perhaps' is neither true nor"):
        collected(table(path, COLUMNS))
