"""Exports come back: through ``datasets``, and through our own reader of RouteBalance's schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rbx.errors import DatasetError
from rbx.grid.export import FILE, export_grid
from rbx.grid.export_routebalance import metric_keys, request_ids
from rbx.grid.manifest import read_manifest
from rbx.grid.split import is_train
from rbx.grid.store import open_view
from tests.grid.building import build
from tests.grid.labelled import every_status, spec, write
from tests.grid.sources import routebalance_entry, routebalance_row, write_jsonl
from tests.grid.test_inspection import change

Row = dict[str, Any]


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    write(every_status(), tmp_path / "grid")
    return tmp_path / "grid"


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``datasets.load_dataset`` without a network and with a cache of its own."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")

    def loaded(folder: Path) -> dict[str, list[Row]]:
        found = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
        return {split: list(rows) for split, rows in found.items()}

    return loaded


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_every_row_comes_back_with_nulls_and_zeros_as_they_were(
    tmp_path: Path, grid: Path, load: Any
) -> None:
    export_grid(grid, tmp_path / "out", "tables")
    splits = load(tmp_path / "out")
    prompts = {row["prompt_id"]: row for row in pq.read_table(grid / "prompts.parquet").to_pylist()}
    responses = pq.read_table(grid / "responses.parquet").to_pylist()
    labels = pq.read_table(grid / "labels.parquet").to_pylist()
    found = {(row["prompt_id"], row["model"]): row for rows in splits.values() for row in rows}
    assert len(found) == sum(map(len, splits.values())) == len(responses) == 80
    for split, rows in splits.items():
        assert {prompts[row["prompt_id"]]["split"] for row in rows} == {split}
    for response in responses:
        row = found[response["prompt_id"], response["model"]]
        prompt = prompts[response["prompt_id"]]
        for name in ("prompt", "source", "source_id", "reference", "tests", "is_harmful", "input_tokens"):
            assert row[name] == prompt[name]
        assert row["response_status"] == response["status"]
        assert row["server_input_tokens"] == response["input_tokens"]
        for name in ("response", "output_tokens", "finish_reason", "tokens_source", "error"):
            assert row[name] == response[name]
    for label in labels:
        row = found[label["prompt_id"], label["model"]]
        for name in ("score", "status", "reason", "cut"):
            assert row[f"{name}_{label['metric']}"] == label[name]
    scores = [row["score_grade"] for row in found.values()]
    assert scores.count(None) == 4
    assert scores.count(0.0) == sum(label["score"] == 0 for label in labels if label["metric"] == "grade") > 0


def test_routebalances_schema_comes_back_through_datasets(tmp_path: Path, grid: Path, load: Any) -> None:
    export_grid(grid, tmp_path / "out", "routebalance")
    splits = load(tmp_path / "out")
    assert len(splits["train"]) + len(splits["test"]) == 40
    for split, rows in splits.items():
        for row in rows:
            assert is_train(row["request_id"]) == (split == "train")
            assert row["dataset"] == row["source"]
    rows = {row["prompt"]: row for each in splits.values() for row in each}
    assert rows["question 0"]["reference_text"] is None
    entries = {number: json.loads(rows[f"question {number}"]["models"]) for number in range(5)}
    assert entries[0]["m-1B"] is None
    assert entries[3]["m-7B"] is None
    assert entries[1]["m-1B"]["response"] == ""
    assert entries[2]["m-1B"]["is_truncated"] is True
    assert entries[4]["m-7B"]["llm_judge_scores"] == {"exact": 0.0, "grade": None}
    assert entries[4]["m-1B"]["llm_judge_scores"] == {"exact": 0.0, "grade": 0.4}


def test_routebalances_schema_comes_back_through_our_own_source(tmp_path: Path, grid: Path) -> None:
    export_grid(grid, tmp_path / "out", "routebalance")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "        exact: exact\n        grade: grade\n" in card
    metrics = {"quality": "grade", "exact": "exact"}
    build({"kind": "routebalance", "path": str(tmp_path / "out"), "metrics": metrics}, tmp_path / "again")
    for ours, theirs in (("grade", "quality"), ("exact", "exact")):
        before, after = open_view(grid, ours), open_view(tmp_path / "again", theirs)
        place = {text: at for at, text in enumerate(after.prompts)}
        assert set(place) == set(before.prompts)
        assert after.models == before.models
        for at, text in enumerate(before.prompts):
            there = place[text]
            assert str(after.score[there].tolist()) == str(before.score[at].tolist())
            assert str(after.output_tokens[there].tolist()) == str(before.output_tokens[at].tolist())
            assert after.is_train[there] == before.is_train[at]
            assert after.is_harmful[there] == before.is_harmful[at]
            assert after.sources[there] == before.sources[at]
            assert after.input_tokens[there] == before.input_tokens[at]


def test_what_was_read_from_routebalances_rows_keeps_their_ids_and_keys(tmp_path: Path) -> None:
    rows = [
        routebalance_row(f"bench-{at}", {"Qwen/Q-3B": routebalance_entry(at / 40), "Qwen/Q-7B": None})
        for at in range(40)
    ]
    metrics = {"quality": "deepeval-llama3.1-8b-it_reference", "similarity": "similarity_score"}
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    build({"kind": "routebalance", "path": str(path), "metrics": metrics}, tmp_path / "grid")
    assert metric_keys(read_manifest(tmp_path / "grid")) == metrics
    export_grid(tmp_path / "grid", tmp_path / "out", "routebalance")
    found = {
        row["request_id"]: row
        for path in (tmp_path / "out" / "data").iterdir()
        for row in map(json.loads, path.read_text().splitlines())
    }
    assert set(found) == {row["request_id"] for row in rows}
    for row in rows:
        entry = json.loads(found[row["request_id"]]["models"])["Qwen/Q-3B"]
        given = row["models"]["Qwen/Q-3B"]
        assert entry["llm_judge_scores"] == given["llm_judge_scores"]
        assert entry["similarity_score"] == given["similarity_score"]
        assert found[row["request_id"]]["source"] == row["source"]
        assert found[row["request_id"]]["dataset"] == "squad"


def test_ids_always_give_the_split_that_the_grid_has(grid: Path) -> None:
    prompts = pq.read_table(grid / "prompts.parquet")
    turned = ["train" if split == "test" else "test" for split in prompts["split"].to_pylist()]
    at = prompts.column_names.index("split")
    ids = request_ids(prompts.set_column(at, prompts.schema.field("split"), [turned]))
    assert len(set(ids)) == 40
    assert [is_train(each) for each in ids] == [split == "train" for split in turned]


def test_shards_are_bounded_and_hold_every_prompt_once(tmp_path: Path, grid: Path, load: Any) -> None:
    whole = export_grid(grid, tmp_path / "whole", "tables")
    small = export_grid(grid, tmp_path / "small", "tables", shard_bytes=4000)
    names = [name for name in small.files if name.startswith("data/train-")]
    assert len(names) > 3
    assert names[0] == f"data/train-00000-of-{len(names):05d}.parquet"
    assert len([name for name in whole.files if name.startswith("data/train-")]) == 1
    assert load(tmp_path / "small") == load(tmp_path / "whole")
    for name in names:
        ids = pq.read_table(tmp_path / "small" / name)["prompt_id"].to_pylist()
        assert ids[::2] == ids[1::2]
    single = export_grid(grid, tmp_path / "single", "routebalance", shard_bytes=1)
    assert len([name for name in single.files if name.startswith("data/")]) == 40


def test_a_split_without_prompts_is_not_named(tmp_path: Path, load: Any) -> None:
    columns = {"prompt": "prompt", "model": "model", "score": "score"}
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"prompt": "p", "model": "x", "score": 0}])
    source = {"kind": "table", "layout": "long", "path": str(rows), "columns": columns}
    build(source, tmp_path / "grid")
    export_grid(tmp_path / "grid", tmp_path / "out", "tables")
    ((split, found),) = load(tmp_path / "out").items()
    assert split == pq.read_table(tmp_path / "grid" / "prompts.parquet")["split"][0].as_py()
    assert [row["score_quality"] for row in found] == [0.0]


def test_the_same_export_is_the_same_bytes_and_left_alone(tmp_path: Path, grid: Path) -> None:
    assert export_grid(grid, tmp_path / "out", "tables").written
    before = content(tmp_path / "out")
    assert not export_grid(grid, tmp_path / "out", "tables").written
    assert export_grid(grid, tmp_path / "other", "tables").written
    assert content(tmp_path / "out") == content(tmp_path / "other") == before
    (tmp_path / "out" / "README.md").write_text("edited")
    assert export_grid(grid, tmp_path / "out", "tables").written
    assert content(tmp_path / "out") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid", "other", "out"]


def test_what_is_not_its_own_is_kept(tmp_path: Path, grid: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    for force in (False, True):
        with pytest.raises(DatasetError, match="exists and is no export; give another directory"):
            export_grid(grid, out, "tables", force=force)
    (out / "thesis.tex").unlink()
    assert export_grid(grid, out, "tables").written
    with pytest.raises(DatasetError, match=r"holds another export \(labelled, schema tables\).*--force"):
        export_grid(grid, out, "routebalance")
    (out / "notes.md").write_text("mine")
    for force in (False, True):
        with pytest.raises(DatasetError, match=r"holds 'notes\.md', which .* does not list.*move it away"):
            export_grid(grid, out, "tables", force=force)
    assert (out / "notes.md").read_text() == "mine"
    (out / "notes.md").unlink()
    (out / "data" / "away").symlink_to(tmp_path)
    with pytest.raises(DatasetError, match=r"holds 'data/away'"):
        export_grid(grid, out, "tables", force=True)
    (out / "data" / "away").unlink()
    assert export_grid(grid, out, "routebalance", force=True).written
    assert set(content(out)) == {
        "README.md",
        FILE,
        "data/train-00000-of-00001.jsonl",
        "data/test-00000-of-00001.jsonl",
    }


@pytest.mark.parametrize(
    "marker", ['{"files":{},"digest":"x"}', "[" * 100_000, '{"files":{"/etc/passwd":"z"},"digest":"x"}']
)
def test_no_marker_makes_somebodys_files_an_export(tmp_path: Path, grid: Path, marker: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / FILE).write_text(marker)
    (out / "precious").write_text("years of work")
    with pytest.raises(DatasetError, match=r"is no export|holds 'precious'"):
        export_grid(grid, out, "tables", force=True)
    assert (out / "precious").read_text() == "years of work"


def test_a_link_stays_and_what_it_points_to_is_written(tmp_path: Path, grid: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    assert export_grid(grid, tmp_path / "link", "tables").written
    assert export_grid(grid, tmp_path / "link", "routebalance", force=True).written
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "data" / "test-00000-of-00001.jsonl").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid", "link", "real"]


def test_a_target_inside_another_grid_is_refused(tmp_path: Path, grid: Path) -> None:
    write(every_status(), tmp_path / "another")
    with pytest.raises(DatasetError, match="lies within the grid"):
        export_grid(grid, tmp_path / "another" / "hub", "tables")
    assert not (tmp_path / "another" / "hub").exists()


def test_a_target_inside_the_grid_or_without_a_name_is_refused(tmp_path: Path, grid: Path) -> None:
    for out in (grid, grid / "hub", Path("..")):
        with pytest.raises(DatasetError, match="give a directory of its own outside the grid"):
            export_grid(grid, out, "tables")
    assert "hub" not in {path.name for path in grid.iterdir()}


def test_a_grid_with_a_fault_is_not_exported(tmp_path: Path, grid: Path) -> None:
    change(grid, "labels.parquet", 0, score=7.0, status="ok")
    with pytest.raises(DatasetError, match=r"row 1, column score: 7\.0 is not in"):
        export_grid(grid, tmp_path / "out", "tables")
    assert not (tmp_path / "out").exists()


def test_the_export_tells_nothing_of_the_machine(tmp_path: Path, grid: Path) -> None:
    export_grid(grid, tmp_path / "out", "routebalance")
    for name, data in content(tmp_path / "out").items():
        assert b"judge.internal" not in data, name
        assert b"somewhere/private" not in data, name
        assert str(tmp_path).encode() not in data, name
    assert spec()["source"]["judges"][0]["endpoint"]["url"].startswith("http://judge.internal")
