"""``rbx cell export`` and ``import``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbx.cli.main import run
from tests.report.sweeps import SweepShape, write_sweep
from tests.sweep.compare.live_scenes import play, write_store
from tests.sweep.interop.bench_files import drawn_result


def test_out_and_in_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_sweep(tmp_path / "sim", SweepShape(n_requests=40, n_prompts=40))
    manifest = json.loads((folder / "manifest.json").read_text())
    out = tmp_path / "cell.json"
    assert run(["cell", "export", str(folder), manifest["cells"][0]["cell_id"], "--vllm", str(out)]) == 0
    assert "40 completed" in capsys.readouterr().out
    assert run(["cell", "import", str(out), "--out", str(tmp_path / "back")]) == 0
    assert "next: rbx report" in capsys.readouterr().out
    assert run(["report", str(tmp_path / "back"), "--resamples", "100"]) == 0
    assert "FOREIGN" in capsys.readouterr().out


def test_an_invalid_cell_is_exported_with_its_reason_and_a_valid_one_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = play(n_requests=20, rate_per_s=15.0)
    folder, out = write_store(tmp_path / "live", [scene]), tmp_path / "cell.json"
    command = ["cell", "export", str(folder), scene.spec.cell_id, "--vllm", str(out)]
    assert run(command) == 0
    assert "rbx_invalid" not in json.loads(out.read_text())
    path = folder / "cells" / f"{scene.spec.cell_id}.json"
    summary = json.loads(path.read_text())
    summary["live"]["reasons"] = ["client-bound: \x1b[2J"]
    path.write_text(json.dumps(summary))
    capsys.readouterr()
    assert run(command) == 3
    told = capsys.readouterr().err
    assert "client-bound" in told
    assert "\x1b" not in told
    assert json.loads(out.read_text())["rbx_invalid"] == ["client-bound: \x1b[2J"]
    summary["live"].update(reasons=[], table_sha256="0" * 64)
    path.write_text(json.dumps(summary))
    assert run(command) == 3
    assert "is not the file its summary was written for" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["config", "pool", "cells", "name"])
def test_a_manifest_that_lacks_a_part_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    folder = write_sweep(tmp_path / "sim", SweepShape(n_requests=10, n_prompts=10))
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    cell_id = manifest["cells"][0]["cell_id"]
    path.write_text(json.dumps({name: part for name, part in manifest.items() if name != key}))
    assert run(["cell", "export", str(folder), cell_id, "--vllm", str(tmp_path / "cell.json")]) == 1
    told = capsys.readouterr().err
    assert "manifest.json" in told
    assert key in told
    assert "Traceback" not in told
    assert not (tmp_path / "cell.json").exists()


@pytest.mark.parametrize("text", ["[" * 200_000, json.dumps({**drawn_result(0), "label": "\x1b[2J"})])
def test_a_bad_file_is_one_line_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    assert run(["cell", "import", str(path), "--out", str(tmp_path / "theirs")]) == 1
    told = capsys.readouterr().err
    assert "bad.json" in told
    assert told.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["bad.json"]


def test_a_result_without_requests_is_refused_with_the_option_that_keeps_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "short.json"
    content = {key: value for key, value in drawn_result(0).items() if key != "ttfts"}
    path.write_text(json.dumps(content))
    assert run(["cell", "import", str(path), "--out", str(tmp_path / "theirs")]) == 1
    assert "--save-detailed" in capsys.readouterr().err
    assert not (tmp_path / "theirs").exists()
