"""``rbx validate`` and what it says to those who call it wrongly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbx.cli.main import run
from tests.report.sweeps import SweepShape, write_sweep
from tests.sweep.compare.live_scenes import play, write_store


def test_a_live_sweep_is_replayed_and_told_in_words_tables_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_store(tmp_path / "live", [play(n_requests=150, rate_per_s=10.0)], time_scale=1.0)
    assert run(["validate", str(folder), "--resamples", "100"]) == 0
    shown = capsys.readouterr().out
    assert "Decisions replayed, by rate" in shown
    assert "Mock servers answered" in shown
    assert "validate.md" in shown.replace("\n", "")
    assert run(["validate", str(folder), "--resamples", "100", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["populations"]["replayed"] == 150
    assert content["policies_not_run_again"]


def test_what_is_no_live_sweep_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sim = write_sweep(tmp_path / "sim", SweepShape(n_requests=30, n_prompts=30))
    assert run(["validate", str(sim)]) == 1
    assert "not a live sweep" in capsys.readouterr().err
    assert run(["validate", str(tmp_path / "none")]) == 1
    assert "none" in capsys.readouterr().err


def test_a_live_cell_that_has_lost_its_stamps_is_told_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = play(n_requests=150, rate_per_s=10.0)
    folder = write_store(tmp_path / "live", [scene], time_scale=1.0)
    (folder / "live" / f"{scene.spec.cell_id}.parquet").unlink()
    assert run(["validate", str(folder), "--resamples", "100"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"{scene.spec.cell_id}.parquet: missing" in said
    assert "run the sweep again" in said
