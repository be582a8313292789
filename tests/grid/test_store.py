"""The store: whole or not at all, the same bytes for the same spec, and nothing altered goes unseen."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from rbx.errors import DatasetError
from rbx.grid.files import sha256_of
from rbx.grid.manifest import FILE, TABLES, digest_of_files, read_manifest
from rbx.grid.store import open_view
from tests.grid.building import build, zeroeval
from tests.grid.sources import write_zeroeval, zeroeval_answer, zeroeval_prompt
from tests.workplace import ROOT


def source(tmp_path: Path, score: int = 1) -> dict[str, Any]:
    prompts = [zeroeval_prompt("a"), zeroeval_prompt("b")]
    answers = [zeroeval_answer("a", "x", score), zeroeval_answer("b", "x", 0)]
    return zeroeval(write_zeroeval(tmp_path / f"source-{score}", prompts, answers))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_same_spec_gives_the_same_bytes(tmp_path: Path) -> None:
    build(source(tmp_path), tmp_path / "one")
    build(source(tmp_path), tmp_path / "two")
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert set(content(tmp_path / "one")) == {*TABLES, FILE, "README.md"}
    assert open_view(tmp_path / "one").digest == open_view(tmp_path / "two").digest


def test_another_score_is_another_grid(tmp_path: Path) -> None:
    one = build(source(tmp_path, 1), tmp_path / "one").manifest
    two = build(source(tmp_path, 0), tmp_path / "two").manifest
    assert one.digest != two.digest
    assert one.files["prompts.parquet"] == two.files["prompts.parquet"]


def test_the_same_grid_is_left_alone_and_another_needs_force(tmp_path: Path) -> None:
    assert build(source(tmp_path, 1), tmp_path / "grid").written
    inode = (tmp_path / "grid").stat().st_ino
    assert not build(source(tmp_path, 1), tmp_path / "grid").written
    assert (tmp_path / "grid").stat().st_ino == inode
    with pytest.raises(DatasetError, match=r"holds another grid \(tiny, .*--force"):
        build(source(tmp_path, 0), tmp_path / "grid")
    assert open_view(tmp_path / "grid").score[0, 0] == 1.0
    assert build(source(tmp_path, 0), tmp_path / "grid", force=True).written
    assert open_view(tmp_path / "grid").score[0, 0] == 0.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid", "source-0", "source-1"]


def test_a_new_description_of_the_same_tables_is_written(tmp_path: Path) -> None:
    build(source(tmp_path), tmp_path / "grid", name="old")
    assert build(source(tmp_path), tmp_path / "grid", name="new").written
    assert read_manifest(tmp_path / "grid").name == "new"


def test_a_folder_of_something_else_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "grid").mkdir()
    (tmp_path / "grid" / "thesis.txt").write_text("years of work")
    with pytest.raises(DatasetError, match="exists and is not a grid; give another directory"):
        build(source(tmp_path), tmp_path / "grid", force=True)
    assert (tmp_path / "grid" / "thesis.txt").read_text() == "years of work"


def test_files_beside_the_tables_are_never_lost_with_a_grid(tmp_path: Path) -> None:
    build(source(tmp_path, 1), tmp_path / "grid")
    (tmp_path / "grid" / "notes").mkdir()
    assert not build(source(tmp_path, 1), tmp_path / "grid").written
    with pytest.raises(DatasetError, match=r"holds 'notes', which is no part of the grid.*move it away"):
        build(source(tmp_path, 0), tmp_path / "grid", force=True)
    assert open_view(tmp_path / "grid").score[0, 0] == 1.0
    assert (tmp_path / "grid" / "notes").is_dir()


def test_a_link_stays_and_the_grid_that_it_points_to_is_replaced(tmp_path: Path) -> None:
    build(source(tmp_path, 1), tmp_path / "real")
    (tmp_path / "grid").symlink_to("real")
    assert build(source(tmp_path, 0), tmp_path / "grid", force=True).written
    assert (tmp_path / "grid").is_symlink()
    assert open_view(tmp_path / "real").score[0, 0] == 0.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid", "real", "source-0", "source-1"]


def test_a_link_to_itself_is_an_error_and_leaves_no_litter(tmp_path: Path) -> None:
    (tmp_path / "grid").symlink_to("grid")
    with pytest.raises(DatasetError, match=r"can't be written|is not a grid"):
        build(source(tmp_path), tmp_path / "grid")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid", "source-1"]


def test_a_directory_inside_a_grid_is_refused(tmp_path: Path) -> None:
    build(source(tmp_path, 1), tmp_path / "grid")
    (tmp_path / "way").symlink_to("grid")
    for inner in (tmp_path / "grid" / "inner", tmp_path / "way" / "deep" / "inner"):
        with pytest.raises(DatasetError, match="lies within the grid"):
            build(source(tmp_path, 0), inner)
    assert set(content(tmp_path / "grid")) == {*TABLES, FILE, "README.md"}


def test_a_write_that_fails_leaves_the_old_grid_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(source(tmp_path, 1), tmp_path / "grid")
    before = content(tmp_path / "grid")

    def full(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DatasetError, match="grid: can't be written: No space left on device"):
        build(source(tmp_path, 0), tmp_path / "grid", force=True)
    assert content(tmp_path / "grid") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid", "source-0", "source-1"]


def ended_process() -> int:
    """The id of a process that ran and is gone."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_leftovers_of_killed_builds_are_cleared_and_those_of_live_ones_kept(tmp_path: Path) -> None:
    dead, alive = ended_process(), os.getppid()
    names = [
        f".grid.{dead}.tmp",
        f".grid.{dead}.old",
        f".grid.{alive}.tmp",
        f".other.{dead}.tmp",
        ".grid.x.tmp",
    ]
    build(source(tmp_path), tmp_path / "grid")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "prompts.parquet").write_text("half")
    assert not build(source(tmp_path), tmp_path / "grid").written
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == sorted(["grid", "source-1", *names[2:]])


def test_a_grid_that_a_killed_build_had_moved_aside_comes_back(tmp_path: Path) -> None:
    build(source(tmp_path), tmp_path / "grid")
    before = content(tmp_path / "grid")
    (tmp_path / "grid").rename(tmp_path / f".grid.{ended_process()}.old")
    with pytest.raises(DatasetError, match="holds another grid"):
        build(source(tmp_path, 0), tmp_path / "grid")
    assert content(tmp_path / "grid") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid", "source-0", "source-1"]


def test_a_build_killed_while_it_writes_leaves_nothing_after_the_next(tmp_path: Path) -> None:
    spec = source(tmp_path)
    script = (
        "import os, signal, sys; from pathlib import Path; from tests.grid.building import build, zeroeval\n"
        "os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)\n"
        "build(zeroeval(Path(sys.argv[1])), Path(sys.argv[2]))\n"
    )
    arguments = [sys.executable, "-c", script, spec["path"], str(tmp_path / "grid")]
    killed = subprocess.run(arguments, cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.glob(".grid.*.tmp")]
    build(spec, tmp_path / "grid")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid", "source-1"]


@pytest.mark.parametrize("name", TABLES)
def test_an_altered_table_is_refused(tmp_path: Path, name: str) -> None:
    build(source(tmp_path), tmp_path / "grid")
    path = tmp_path / "grid" / name
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DatasetError, match=f"{name}: not the file that manifest.json names"):
        open_view(tmp_path / "grid")
    with pytest.raises(DatasetError, match="or replace it with --force"):
        build(source(tmp_path), tmp_path / "grid")
    assert build(source(tmp_path), tmp_path / "grid", force=True).written
    assert open_view(tmp_path / "grid").score[0, 0] == 1.0
    path.unlink()
    with pytest.raises(DatasetError, match=f"{name}: no such file"):
        open_view(tmp_path / "grid")


def resign(folder: Path, name: str, table: pa.Table) -> None:
    """Put another table in, with a manifest that matches it."""
    pq.write_table(table, folder / name)
    manifest = json.loads((folder / FILE).read_text())
    manifest["files"][name] = sha256_of(folder / name)
    manifest["digest"] = digest_of_files(manifest["files"])
    (folder / FILE).write_text(json.dumps(manifest))


def test_a_table_of_another_schema_is_refused_by_column(tmp_path: Path) -> None:
    build(source(tmp_path), tmp_path / "grid")
    labels = pq.read_table(tmp_path / "grid" / "labels.parquet")
    resign(tmp_path / "grid", "labels.parquet", labels.drop_columns(["score"]))
    with pytest.raises(DatasetError, match=r"labels\.parquet: no column score"):
        open_view(tmp_path / "grid")
    wrong = labels.set_column(3, "score", pa.array(["1", "0"]))
    resign(tmp_path / "grid", "labels.parquet", wrong)
    with pytest.raises(DatasetError, match=r"labels\.parquet, column score: is string, expected double"):
        open_view(tmp_path / "grid")


def test_a_row_that_breaks_a_rule_is_named(tmp_path: Path) -> None:
    build(source(tmp_path), tmp_path / "grid")
    labels = pq.read_table(tmp_path / "grid" / "labels.parquet")
    resign(tmp_path / "grid", "labels.parquet", labels.set_column(3, "score", pa.array([1.0, 7.0])))
    with pytest.raises(DatasetError, match=r"labels\.parquet, row 2, column score: 7.0 is not in \[0, 1\]"):
        open_view(tmp_path / "grid")


def test_manifests_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"not a grid \(no such directory\).*rbx build-dataset"):
        open_view(tmp_path / "nowhere")
    with pytest.raises(DatasetError, match=r"not a grid \(no manifest\.json in it\)"):
        open_view(tmp_path)
    build(source(tmp_path), tmp_path / "grid")
    path = tmp_path / "grid" / FILE
    good = json.loads(path.read_text())
    for change, message in (
        ({"format": 99}, "written in format 99, this version reads 2"),
        ({"digest": "0" * 64}, "its digest does not match its list of files"),
        ({"models": []}, "not a valid manifest: models"),
        ({"surprise": 1}, "not a valid manifest: surprise: Extra inputs"),
    ):
        path.write_text(json.dumps(good | change))
        with pytest.raises(DatasetError, match=message):
            open_view(tmp_path / "grid")
    # As format 1 was written, before a metric stood for quality.
    path.write_text(
        json.dumps({key: value for key, value in good.items() if key != "quality"} | {"format": 1})
    )
    with pytest.raises(DatasetError, match="written in format 1, this version reads 2; build the grid again"):
        open_view(tmp_path / "grid")
    path.write_text("{")
    with pytest.raises(DatasetError, match="not a valid manifest"):
        open_view(tmp_path / "grid")


def test_the_card_and_the_manifest_say_what_it_is(tmp_path: Path) -> None:
    build({"kind": "synth", "preset": "quickstart", "n": 30}, tmp_path / "synth")
    manifest = read_manifest(tmp_path / "synth")
    card = (tmp_path / "synth" / "README.md").read_text()
    header = yaml.safe_load(card.split("---")[1])
    assert manifest.synthetic
    assert "synthetic" in header["tags"]
    assert "**This grid is synthetic.**" in card
    assert manifest.digest in card
    build(source(tmp_path), tmp_path / "real")
    assert not read_manifest(tmp_path / "real").synthetic
    assert "synthetic" not in (tmp_path / "real" / "README.md").read_text()
    assert set(read_manifest(tmp_path / "real").versions) == {"rbx", "pyarrow"}


@pytest.mark.parametrize("folder", ["", ".", "/", ".."])
def test_a_target_without_a_name_of_its_own_is_refused(tmp_path: Path, folder: str) -> None:
    with pytest.raises(DatasetError, match="--out"):
        build(source(tmp_path), Path(folder))
