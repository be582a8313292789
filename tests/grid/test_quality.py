"""Which metric stands for quality where nobody names one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbx.errors import DatasetError
from rbx.grid.harvest import harvest_rows
from rbx.grid.manifest import FILE, quality_metric, read_manifest
from rbx.grid.store import open_view
from tests.grid.building import build
from tests.grid.labelled import answer, every_status, label, prompt, spec, write
from tests.grid.sources import write_jsonl


@pytest.mark.parametrize(
    ("metrics", "named", "expected"),
    [
        (["a", "quality"], None, "quality"),
        (["b", "c"], None, "b"),
        (["b", "c"], "c", "c"),
        (["quality", "c"], "quality", "quality"),
    ],
)
def test_the_rule(metrics: list[str], named: str | None, expected: str) -> None:
    assert quality_metric(metrics, named) == expected


def test_the_spec_decides_and_the_view_has_the_real_name(tmp_path: Path) -> None:
    assert write(every_status(), tmp_path / "grid").manifest.quality == "grade"
    view = open_view(tmp_path / "grid")
    assert view.metric == open_view(tmp_path / "grid", "quality").metric == "grade"
    exact = write(every_status(), tmp_path / "other", spec(quality="exact")).manifest
    assert exact.quality == "exact"
    assert open_view(tmp_path / "other").score[5].tolist() == [1.0, 1.0]
    assert open_view(tmp_path / "grid").score[5].tolist() == [0.5, 0.5]
    with pytest.raises(DatasetError, match="no metric 'style'; the grid has exact, grade"):
        open_view(tmp_path / "grid", "style")


def test_a_table_with_one_metric_of_another_name(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", [{"prompt": "p", "model": "x", "score": 0.25}])
    columns = {"prompt": "prompt", "model": "model", "score": "score"}
    source = {"kind": "table", "layout": "long", "path": str(path), "columns": columns, "metric": "style"}
    assert build(source, tmp_path / "grid").manifest.quality == "style"
    assert open_view(tmp_path / "grid").metric == "style"
    assert "- metrics: style (style stands for quality)\n" in (tmp_path / "grid" / "README.md").read_text()


def test_a_metric_that_no_label_has_can_not_stand_for_quality(tmp_path: Path) -> None:
    rows = harvest_rows([prompt(0)], [answer(0, "x")], [label(0, "x", "exact", 1.0)], {})
    with pytest.raises(
        DatasetError, match="labelled: 'grade' can't stand for quality: the metrics are exact"
    ):
        write(rows, tmp_path / "grid")


def test_a_manifest_whose_quality_is_no_metric_is_refused(tmp_path: Path) -> None:
    write(every_status(), tmp_path / "grid")
    path = tmp_path / "grid" / FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quality": "style"}))
    with pytest.raises(DatasetError, match="'style' can't stand for quality: the metrics are exact, grade"):
        read_manifest(tmp_path / "grid")


def test_a_metric_called_quality_is_not_passed_over() -> None:
    with pytest.raises(ValueError, match="beside a metric called quality; rename that one"):
        quality_metric(["grade", "quality"], "grade")
