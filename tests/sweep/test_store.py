"""The store: a cell counts when it is whole, and a faulty disk loses nothing that was finished."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rbx.durable import write_json, write_table
from rbx.errors import StoreError
from rbx.sweep.store import SweepStore

SUMMARY: dict[str, Any] = {
    "cell_id": "abc",
    "scheduled": 1,
    "sent": 1,
    "not_sent": 0,
    "ok": 1,
    "error": 0,
    "timeout": 0,
    "cancelled": 0,
    "busy_s": {"a/0": 1.0},
    "steps": 3,
    "preemptions": 0,
    "batches": 1,
    "infeasible": 0,
    "alarms": 0,
    "duration_s": 2.0,
}
EDITS: dict[str, dict[str, Any]] = {
    "wrong count": {"ok": 5},
    "text": {"scheduled": "1"},
    "key": {"unheard_of": 1},
}
RECORDS = pa.table({"request": [0]})


def finished_store(tmp_path: Path) -> SweepStore:
    store = SweepStore(tmp_path / "sweep")
    with store.locked():
        store.write_cell(RECORDS, SUMMARY)
    return store


def test_a_written_cell_is_finished_and_an_unwritten_one_is_not(tmp_path: Path) -> None:
    store = finished_store(tmp_path)
    assert store.is_finished("abc")
    assert not store.is_finished("other")


@pytest.mark.parametrize(
    "harm",
    ["no summary", "half a summary", "other records", "no records", "a list", "wrong count", "text", "key"],
)
def test_a_cell_that_is_not_whole_runs_again(tmp_path: Path, harm: str) -> None:
    store = finished_store(tmp_path)
    summary, records = store.summary_path("abc"), store.records_path("abc")
    if harm == "no summary":
        summary.unlink()
    elif harm == "half a summary":
        summary.write_text(summary.read_text()[:40])
    elif harm == "a list":
        summary.write_text("[]")
    elif harm in EDITS:
        summary.write_text(json.dumps({**json.loads(summary.read_text()), **EDITS[harm]}))
    elif harm == "other records":
        records.write_bytes(records.read_bytes()[:-1])
    else:
        records.unlink()
    assert not store.is_finished("abc")


def test_leftovers_of_a_killed_writer_are_cleared(tmp_path: Path) -> None:
    store = finished_store(tmp_path)
    (store.cells / ".abc.parquet.1.tmp").write_bytes(b"half")
    with store.locked():
        assert list(store.cells.glob(".*.tmp")) == []


def test_a_second_sweep_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    store = SweepStore(tmp_path / "sweep")
    with store.locked(), pytest.raises(StoreError, match="another sweep"), SweepStore(store.folder).locked():
        pass


def test_a_full_disk_keeps_the_earlier_file_and_says_which(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    write_table(RECORDS, path)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        with pytest.raises(StoreError, match=r"table\.parquet"):
            write_table(pa.table({"request": list(range(10000))}), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert list(tmp_path.glob(".*")) == []


def test_json_refuses_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json({"x": float("nan")}, tmp_path / "x.json")


def test_a_directory_without_a_manifest_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"manifest\.json"):
        SweepStore(tmp_path).read_manifest()
    (tmp_path / "manifest.json").write_text(json.dumps([1]))
    with pytest.raises(StoreError, match="JSON object"):
        SweepStore(tmp_path).read_manifest()
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(StoreError, match=r"manifest\.json: can't be read"):
        SweepStore(tmp_path).read_manifest()


@pytest.mark.parametrize("mark", ["prompts.parquet", "bundle.json", "anything"])
def test_a_directory_of_another_kind_is_left_alone(tmp_path: Path, mark: str) -> None:
    (tmp_path / mark).write_text("mine")
    (tmp_path / "manifest.json").write_text("{}")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StoreError, match="not a sweep"), SweepStore(tmp_path).locked():
        pass
    assert sorted(tmp_path.iterdir()) == before
