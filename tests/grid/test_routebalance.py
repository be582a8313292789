"""The routebalance source: zero stays zero, null stays null, the split is the published one."""

from __future__ import annotations

import gzip
import json
import threading
import time
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rbx.errors import ConfigError, DatasetError
from rbx.grid.hub import fetch_dataset
from rbx.grid.split import is_train
from rbx.grid.store import open_view
from tests.grid.building import build, loaded
from tests.grid.sources import routebalance_entry, routebalance_row, write_jsonl

SMALL, LARGE = "Qwen/Qwen2.5-3B", "Qwen/Qwen2.5-72B"


def source(path: Path, **more: Any) -> dict[str, Any]:
    return {"kind": "routebalance", "path": str(path)} | more


def pair(first: float | None, second: float | None) -> dict[str, Any]:
    return {SMALL: routebalance_entry(first), LARGE: routebalance_entry(second, tokens=1024)}


def test_zero_stays_zero_and_null_stays_null(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "rows.jsonl",
        [routebalance_row("r1", pair(0.0, 0.4)), routebalance_row("r2", pair(None, 0.0))],
    )
    built = build(source(path), tmp_path / "grid")
    view = open_view(tmp_path / "grid")
    assert view.score[0].tolist() == [0.0, 0.4]
    assert np.isnan(view.score[1, 0])
    assert view.score[1, 1] == 0.0
    assert built.manifest.counts.labels_present == 3
    labels = pq.read_table(tmp_path / "grid" / "labels.parquet")
    assert labels["status"].to_pylist() == ["ok", "ok", "missing", "ok"]
    finish = pq.read_table(tmp_path / "grid" / "responses.parquet")["finish_reason"].to_pylist()
    assert finish == ["stop", "length", "stop", "length"]


def test_models_may_be_a_json_string_in_parquet_and_be_renamed(tmp_path: Path) -> None:
    rows = [
        routebalance_row("r1", json.dumps(pair(0.1, 0.9))),
        routebalance_row("r2", json.dumps(pair(0.2, 0.8))),
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "train.parquet")
    build(source(tmp_path, rename={SMALL: "small", LARGE: "large"}), tmp_path / "grid")
    view = open_view(tmp_path / "grid")
    assert view.models == ("large", "small")
    assert view.score.tolist() == [[0.9, 0.1], [0.8, 0.2]]
    assert view.sources == ("squad/r1", "squad/r2")


def test_a_parquet_struct_with_null_models_means_missing(tmp_path: Path) -> None:
    rows = [routebalance_row("r1", pair(0.1, 0.9)), routebalance_row("r2", {SMALL: routebalance_entry(0.3)})]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "all.parquet")
    build(source(tmp_path / "all.parquet"), tmp_path / "grid")
    view = open_view(tmp_path / "grid")
    assert view.score[0].tolist() == [0.1, 0.9]
    assert np.isnan(view.score[1, 1])


def test_several_metrics_stand_side_by_side(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", [routebalance_row("r1", pair(0.0, 1.0))])
    metrics = {"quality": "deepeval-llama3.1-8b-it_reference", "similarity": "similarity_score"}
    build(source(path, metrics=metrics), tmp_path / "grid")
    assert open_view(tmp_path / "grid").score.tolist() == [[0.0, 1.0]]
    assert open_view(tmp_path / "grid", "similarity").score.tolist() == [[0.75, 0.75]]
    with pytest.raises(DatasetError, match="no metric 'nope'; the grid has quality, similarity"):
        open_view(tmp_path / "grid", "nope")


def test_a_metric_that_no_row_has_is_refused(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", [routebalance_row("r1", pair(0.0, 1.0))])
    with pytest.raises(DatasetError, match=r"no row has a score for quality \(gemma\)"):
        build(source(path, metrics={"quality": "gemma"}), tmp_path / "grid")


def test_the_split_follows_the_rows_own_ids(tmp_path: Path) -> None:
    rows = [routebalance_row(f"bench-{i}", pair(0.5, 0.5)) for i in range(200)]
    build(source(write_jsonl(tmp_path / "rows.jsonl", rows)), tmp_path / "grid")
    view = open_view(tmp_path / "grid")
    assert view.is_train.tolist() == [is_train(row["request_id"]) for row in rows]
    assert 130 < view.is_train.sum() < 185


@pytest.mark.shared
def test_every_published_test_id_falls_in_test(shared_data: Path) -> None:
    with gzip.open(shared_data / "routebalance_prompts" / "prompts.jsonl.gz", "rt") as file:
        ids = [json.loads(line)["id"] for line in file]
    assert len(ids) == 3634
    assert not any(is_train(each) for each in ids)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            routebalance_row("r2", pair(1.2, 0.5)),
            r"row 2, column deepeval-.*: the score 1.2 is outside \[0, 1\]",
        ),
        (routebalance_row("r2", pair(float("nan"), 0.5)), "row 2, column deepeval-.*: nan is not finite"),
        (routebalance_row("r2", {}), "row 2, column models: expected an object with one entry per model"),
        (routebalance_row("r2", "{"), "row 2, column models: the string is not valid JSON"),
        (routebalance_row("r2", "[" * 100_000), "row 2, column models: the string is not valid JSON"),
        (routebalance_row("r2", {SMALL: 3}), "row 2, column models.Qwen/Qwen2.5-3B: expected an object"),
        (routebalance_row("r1", pair(0, 0)), "row 2, column request_id: 'r1' was given in rows.jsonl, row 1"),
        (
            routebalance_row("r2", pair(0, 0)) | {"input_len": -1},
            "row 2, column input_len: -1 is not a whole",
        ),
        (
            routebalance_row("r2", pair(0, 0)) | {"is_harmful": "maybe"},
            "column is_harmful: 'maybe' is neither",
        ),
        (
            routebalance_row("r2", {SMALL: routebalance_entry(0.1, llm_judge_scores=[1])}),
            "row 2, column llm_judge_scores: expected an object",
        ),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", [routebalance_row("r1", pair(0.1, 0.2)), row])
    with pytest.raises(DatasetError, match=message):
        build(source(path), tmp_path / "grid")


def test_two_models_may_not_get_one_name(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", [routebalance_row("r1", pair(0.1, 0.2))])
    with pytest.raises(DatasetError, match="two entries are called 'x' after rename"):
        build(source(path, rename={SMALL: "x", LARGE: "x"}), tmp_path / "grid")


def test_either_a_path_or_the_hub(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give either path"):
        loaded({"kind": "routebalance"})
    with pytest.raises(ConfigError, match="give either path"):
        loaded({"kind": "routebalance", "path": "x", "hub": "a/b"})
    with pytest.raises(DatasetError, match=r"holds no \.jsonl"):
        build(source(tmp_path), tmp_path / "grid")


def test_a_hub_that_hangs_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()

    def hang(*args: Any, **more: Any) -> str:
        let_go.wait(60)
        return "too late"

    monkeypatch.setattr(huggingface_hub, "snapshot_download", hang)
    begun = time.monotonic()
    with pytest.raises(DatasetError, match=r"a/b can't be fetched .* \(nothing came for 0\.1 s\)"):
        fetch_dataset("a/b", "main", stall_s=0.1)
    assert time.monotonic() - begun < 30
    let_go.set()


def test_a_hub_that_can_not_be_reached_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **more: Any) -> str:
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(DatasetError, match=r"ConnectionError: no route.*--set source\.path=DIR"):
        fetch_dataset("a/b", "main")


def test_a_dataset_of_the_hub_is_read_like_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_jsonl(tmp_path / "snapshot" / "data" / "test.jsonl", [routebalance_row("r1", pair(0.1, 0.2))])
    asked: dict[str, Any] = {}

    def download(repository: str, **more: Any) -> str:
        asked.update(more, repository=repository)
        return str(tmp_path / "snapshot")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    built = build({"kind": "routebalance", "hub": "a/b", "revision": "v1"}, tmp_path / "grid")
    assert (asked["repository"], asked["revision"], asked["repo_type"]) == ("a/b", "v1", "dataset")
    assert built.manifest.provenance["hub"] == "a/b"
    assert built.manifest.counts.prompts == 1
