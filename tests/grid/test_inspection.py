"""The check: each rule broken once, named by file, row and column; and what only deserves a warning."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rbx.grid.inspection import inspect_grid
from tests.grid.building import build
from tests.grid.sources import write_jsonl
from tests.grid.test_store import resign, source


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    build(source(tmp_path), tmp_path / "grid")
    assert inspect_grid(tmp_path / "grid").faults == ()
    return tmp_path / "grid"


def change(grid: Path, name: str, row: int, **values: Any) -> None:
    """Alter one row of a table and sign it again."""
    table = pq.read_table(grid / name)
    rows = table.to_pylist()
    rows[row] |= values
    fields = [field.with_nullable(True) for field in table.schema]
    resign(grid, name, pa.Table.from_pylist(rows, schema=pa.schema(fields)))


@pytest.mark.parametrize(
    ("name", "values", "rule", "column", "what"),
    [
        ("prompts.parquet", {"prompt_id": None}, "null", "prompt_id", "is null"),
        ("prompts.parquet", {"prompt": "question a"}, "duplicate", "prompt", "the same text under two ids"),
        ("prompts.parquet", {"prompt": " \n"}, "empty", "prompt", "is empty"),
        ("prompts.parquet", {"split": "dev"}, "split", "split", "'dev' is neither train nor test"),
        ("prompts.parquet", {"input_tokens": -1}, "range", "input_tokens", "-1 is below 0"),
        ("responses.parquet", {"prompt_id": "gone"}, "orphan", "prompt_id", "'gone' is not in prompts"),
        ("responses.parquet", {"model": "z"}, "unknown", "model", "'z' is not a model of manifest.json"),
        ("responses.parquet", {"status": "fine"}, "status", "status", "'fine' is none of ok, empty"),
        ("responses.parquet", {"finish_reason": "tired"}, "finish", "finish_reason", "'tired' is neither"),
        ("responses.parquet", {"output_tokens": -5}, "range", "output_tokens", "-5 is below 0"),
        ("labels.parquet", {"prompt_id": "gone"}, "orphan", "prompt_id", "'gone' is not in prompts"),
        ("labels.parquet", {"metric": "other"}, "unknown", "metric", "'other' is not a metric"),
        ("labels.parquet", {"score": 1.01}, "range", "score", "1.01 is not in [0, 1]"),
        ("labels.parquet", {"score": -0.5}, "range", "score", "-0.5 is not in [0, 1]"),
        ("labels.parquet", {"score": math.nan}, "range", "score", "nan is not in [0, 1]"),
        ("labels.parquet", {"score": math.inf}, "range", "score", "inf is not in [0, 1]"),
        ("labels.parquet", {"score": None}, "status", "score", "is null though its status is ok"),
        ("labels.parquet", {"status": "missing"}, "status", "score", "stands beside a status other than ok"),
    ],
)
def test_each_rule_names_the_place(
    grid: Path, name: str, values: dict[str, Any], rule: str, column: str, what: str
) -> None:
    change(grid, name, 1, **values)
    faults = inspect_grid(grid).faults
    found = [each for each in faults if (each.rule, each.file, each.column) == (rule, name, column)]
    assert len(found) == 1
    assert (found[0].row, found[0].count) == (2, 1)
    assert what in found[0].what


@pytest.mark.parametrize("name", ["responses.parquet", "labels.parquet"])
def test_two_rows_of_one_pair_are_named(grid: Path, name: str) -> None:
    first = pq.read_table(grid / name).to_pylist()[0]["prompt_id"]
    change(grid, name, 1, prompt_id=first)
    (fault,) = inspect_grid(grid).faults
    assert (fault.rule, fault.file, fault.row) == ("duplicate", name, 2)


def test_the_same_id_in_both_splits_is_a_duplicate(grid: Path) -> None:
    rows = pq.read_table(grid / "prompts.parquet").to_pylist()
    change(grid, "prompts.parquet", 1, prompt_id=rows[0]["prompt_id"])
    assert "duplicate" in {fault.rule for fault in inspect_grid(grid).faults}


def test_counts_that_do_not_add_up_are_a_fault(grid: Path) -> None:
    labels = pq.read_table(grid / "labels.parquet")
    resign(grid, "labels.parquet", labels.slice(0, 1))
    (fault,) = inspect_grid(grid).faults
    assert (fault.rule, fault.file) == ("counts", "manifest.json")


def test_missing_labels_are_a_warning_with_their_number(tmp_path: Path) -> None:
    rows = [
        {"prompt": f"p{row}", "model": model, "score": None if (row + column) % 3 else 0.0, "tokens": 3}
        for row in range(6)
        for column, model in enumerate("xy")
    ]
    columns = {"prompt": "prompt", "model": "model", "score": "score", "output_tokens": "tokens"}
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    build({"kind": "table", "layout": "long", "path": str(path), "columns": columns}, tmp_path / "grid")
    inspection = inspect_grid(tmp_path / "grid")
    assert inspection.faults == ()
    coverage = [each for each in inspection.warnings if each.rule == "coverage"]
    (found,) = coverage
    assert (found.count, found.row, found.place) == (8, None, ", column score")
    assert found.what == "8 of 12 labels are missing: x 4 of 6, y 4 of 6"
    assert {each.model: (each.present, each.missing) for each in inspection.census.labels} == {
        "x": (2, 4),
        "y": (2, 4),
    }


def test_the_model_that_lacks_most_is_named_first(tmp_path: Path) -> None:
    rows = [
        {"prompt": f"p{row}", "model": model, "score": 1.0 if row >= lost else None, "tokens": row or None}
        for row in range(5)
        for model, lost in (("x", 1), ("y", 3), ("z", 0))
        if model != "z" or row
    ]
    columns = {"prompt": "prompt", "model": "model", "score": "score", "output_tokens": "tokens"}
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    build({"kind": "table", "layout": "long", "path": str(path), "columns": columns}, tmp_path / "grid")
    told = {
        (each.file, each.what) for each in inspect_grid(tmp_path / "grid").warnings if each.rule == "coverage"
    }
    assert told == {
        ("labels.parquet", "5 of 15 labels are missing: y 3 of 5, x 1 of 5, z 1 of 5"),
        (
            "responses.parquet",
            "3 of 15 answers have no length: x 1 of 5, y 1 of 5, z 1 of 5; a sweep leaves their prompts out",
        ),
    }


def test_estimated_input_tokens_are_a_warning_and_counted_ones_are_none(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"prompt": f"p{row}", "model": "x", "score": 1, "n": None if row == 2 else 9} for row in range(9)
    ]
    columns = {"prompt": "prompt", "model": "model", "score": "score"}
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    spec = {"kind": "table", "layout": "long", "path": str(path)}

    def told(more: dict[str, str]) -> list[str]:
        build(spec | {"columns": columns | more}, tmp_path / "grid", force=True)
        return [each.what for each in inspect_grid(tmp_path / "grid").warnings if each.rule == "estimate"]

    (whole,) = told({})
    assert whole.startswith("estimated: characters / 4; costs")
    assert "source.columns.input_tokens" in whole
    (part,) = told({"input_tokens": "n"})
    assert part.startswith("estimated: characters / 4 for 1 of 9 prompts, the others from column n; costs")
    write_jsonl(path, [row | {"n": 9} for row in rows])
    assert told({"input_tokens": "n"}) == []


def test_dropped_duplicates_that_were_scored_otherwise_are_counted(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "a", "prompt": "same", "model": "x", "score": 1},
        {"id": "a", "prompt": "same", "model": "y", "score": None, "tokens": 3},
        {"id": "b", "prompt": "same", "model": "x", "score": 1},  # agrees
        {"id": "b", "prompt": "same", "model": "y", "score": 0},  # the one that stays has no score
        {"id": "c", "prompt": "same", "model": "x", "score": 0},
        {"id": "d", "prompt": "other", "model": "x", "score": 0},
        {"id": "e", "prompt": "other", "model": "x", "score": 0.5},
        {"id": "e", "prompt": "other", "model": "y", "score": 1},
    ]
    columns = {name: name for name in ("id", "prompt", "model", "score")} | {"output_tokens": "tokens"}
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    spec = {"kind": "table", "layout": "long", "path": str(path), "columns": columns}
    counts = build(spec, tmp_path / "grid").manifest.counts
    assert (counts.prompts, counts.duplicate_prompts, counts.disagreeing_duplicates) == (2, 3, 2)
    inspection = inspect_grid(tmp_path / "grid")
    assert inspection.faults == ()
    (found,) = (each for each in inspection.warnings if each.rule == "duplicate")
    assert (found.count, found.place) == (2, "")
    assert found.what.startswith("of 3 dropped prompts of equal text, 2 were scored otherwise")
    assert (
        "3 prompts of equal text dropped, 2 of them scored otherwise"
        in (tmp_path / "grid" / "README.md").read_text()
    )


def test_a_text_that_differs_in_white_space_only_across_the_split_is_a_warning(tmp_path: Path) -> None:
    rows = [
        {"prompt": f"{space}What  is {row}?", "model": "x", "score": 1}
        for row in range(12)
        for space in ("", " ")
    ]
    columns = {"prompt": "prompt", "model": "model", "score": "score"}
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    build({"kind": "table", "layout": "long", "path": str(path), "columns": columns}, tmp_path / "grid")
    prompts = pq.read_table(tmp_path / "grid" / "prompts.parquet").to_pylist()
    crossing = sum(one["split"] != two["split"] for one, two in zip(prompts[::2], prompts[1::2], strict=True))
    assert crossing > 0
    (overlap,) = (each for each in inspect_grid(tmp_path / "grid").warnings if each.rule == "overlap")
    assert overlap.count == crossing
