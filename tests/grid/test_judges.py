"""One judge a metric: scores of two never stand in one column."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rbx.errors import DatasetError
from rbx.grid.harvest import LabelRow, harvest_rows
from rbx.grid.inspection import inspect_grid
from rbx.grid.store import open_view
from tests.grid.labelled import answer, label, prompt, write
from tests.grid.test_inspection import change

OTHER = "c" * 64
MIXED = r"labels of grade come from 2 judges, .*: aaaaaaaaaaaa 2, cccccccccccc 1; give each judge a metric"


def write_labels(folder: Path, labels: list[LabelRow]) -> None:
    answers = [answer(number, "m-1B") for number in range(3)]
    write(harvest_rows([prompt(number) for number in range(3)], answers, labels, {}), folder)


def test_a_column_with_two_judges_is_refused_with_their_counts(tmp_path: Path) -> None:
    labels = [label(0, "m-1B", "grade", 0.0), label(1, "m-1B", "grade", 1.0)]
    for odd in (
        label(2, "m-1B", "grade", 0.5, judge_digest=OTHER),
        label(2, "m-1B", "grade", None, status="judge_failed", judge_digest=OTHER),
    ):
        with pytest.raises(DatasetError, match=MIXED):
            write_labels(tmp_path / "grid", [*labels, odd])
    assert not (tmp_path / "grid").exists()


def test_what_no_judge_saw_may_carry_any_digest(tmp_path: Path) -> None:
    labels = [
        label(0, "m-1B", "grade", 0.0),
        label(1, "m-1B", "grade", None, judge_digest=""),
        label(0, "m-1B", "exact", 1.0),
        label(2, "m-1B", "grade", None, judge_digest=OTHER),
    ]
    write_labels(tmp_path / "grid", labels)
    assert inspect_grid(tmp_path / "grid").faults == ()


def test_a_grid_that_was_mixed_afterwards_is_a_fault_and_opens_no_more(tmp_path: Path) -> None:
    write_labels(tmp_path / "grid", [label(number, "m-1B", "grade", 0.5) for number in range(3)])
    change(tmp_path / "grid", "labels.parquet", 1, judge_digest=OTHER)
    (fault,) = inspect_grid(tmp_path / "grid").faults
    assert (fault.rule, fault.column, fault.count) == ("digest", "judge_digest", 3)
    with pytest.raises(DatasetError, match=MIXED):
        open_view(tmp_path / "grid")
    assert pq.read_table(tmp_path / "grid" / "labels.parquet").num_rows == 3
