"""``rbx train step-time`` beside ``rbx train GRID``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from numpy.typing import ArrayLike

from rbx.cli.main import run
from rbx.config.pool import load_pool
from rbx.engine.step_trace import write_step_trace
from tests.heads import step_traces
from tests.heads.step_traces import Scene, draw

ROOT = Path(__file__).resolve().parents[2]
PAPER = ROOT / "experiments" / "pools" / "paper.yaml"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    scene = Scene(n=2500, noise=0.04, stall_share=0.004)
    return str(draw(tmp_path, step_traces.A, scene).trace.path)


def fit(trace: str, *options: str) -> int:
    return run(["train", "step-time", trace, "--block-s", "2", *options])


def test_both_commands_stand_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "rbx train step-time" in shown
    assert "--pool" in shown
    assert run(["train", "step-time", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Usage: rbx train step-time [OPTIONS]" in shown
    assert "--feature-set" in shown
    assert "--pool" not in shown


def test_a_grid_of_that_name_is_reached_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "step-time").mkdir()
    assert run(["train", "./step-time", "--pool", str(PAPER), "--out", "bundle"]) == 1
    assert "step-time" in capsys.readouterr().err
    assert run(["train", "step-time", "--pool", str(PAPER), "--out", "bundle"]) == 2
    assert "--pool" in capsys.readouterr().err


def test_options_may_stand_before_the_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["train", "--pool", str(PAPER), "--out", str(tmp_path / "bundle"), str(tmp_path / "grid")]
    assert run(options) == 1
    assert f"{tmp_path / 'grid'}" in capsys.readouterr().err


@pytest.mark.parametrize("feature_set", [None, "A", "B", "C"])
def test_the_block_that_is_written_prices_a_pool(
    feature_set: str | None, trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fits" / "tier.yaml"
    asked = ("--feature-set", feature_set) if feature_set else ()
    assert fit(trace, "--out", str(out), *asked) == 0
    assert out.read_text() in capsys.readouterr().out
    report = json.loads((tmp_path / "fits" / "tier.report.json").read_text())
    assert report["recommended"] == "A"
    pool = yaml.safe_load(PAPER.read_text())
    pool["tiers"][0] |= yaml.safe_load(out.read_text())
    (tmp_path / "pool.yaml").write_text(yaml.safe_dump(pool))
    step_time = load_pool(tmp_path / "pool.yaml").value.tiers[0].step_time
    written = feature_set or "A"
    model = next(item for item in report["models"] if item["feature_set"] == written)
    assert step_time.feature_set == written
    assert step_time.source == model["fit_id"]
    for coefficient in model["coefficients"]:
        assert getattr(step_time, coefficient["name"]) == pytest.approx(coefficient["seconds"], rel=1e-8)
    if written == "A":
        assert step_time.b0_s == pytest.approx(step_traces.A[0], rel=0.02)


def test_the_tables_hold_every_figure(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fit(trace) == 0
    shown = capsys.readouterr().out
    for text in ("decode-only", "mixed", "prefill-only", "all but stalls", "95 % interval", "Stalls: "):
        assert text in shown
    assert "recommended: model A" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_json_is_the_report_alone(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fit(trace, "--json") == 0
    shown = capsys.readouterr()
    assert "fitting step times" in shown.err
    data = json.loads(shown.out)
    assert [model["feature_set"] for model in data["models"]] == ["C", "A", "B"]
    assert data["traces"][0]["name"] == "trace.parquet"


def test_faults_are_one_line_and_nothing_is_written(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tier.yaml"
    bare = str(draw(tmp_path, step_traces.C, Scene(n=1000, contexts=False), "bare").trace.path)
    for arguments, code, said in [
        (["train", "step-time", str(tmp_path / "no.parquet")], 1, "no such step trace"),
        (["train", "step-time", trace, "--out", str(tmp_path / "tier.json")], 2, "name it .yaml"),
        (["train", "step-time", trace, "--holdout", "1.5"], 2, "holdout is 1.5"),
        (["train", "step-time", trace, "--block-s", "1e6"], 1, "--block-s"),
        (["train", "step-time", trace, trace], 1, "give each once"),
        (["train", "step-time", bare, "--block-s", "2", "--feature-set", "A"], 2, "was not fitted"),
        (["train", "step-time", trace, "--feature-set", "D"], 2, "'D'"),
        (["train", "step-time"], 2, "TRACE"),
    ]:
        assert run([*arguments, *(["--out", str(out)] if "--out" not in arguments else [])]) == code
        assert said in capsys.readouterr().err
    assert not out.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bare.parquet", "trace.parquet"]


def poor_trace(folder: Path, prefill: int, decodes: int, vary: bool, sums: bool) -> str:
    """1,000 steps of a trace with only one kind of step, all alike unless they ``vary``."""
    rng = np.random.default_rng(0)
    size = rng.integers(1, 40, 1000) if vary else np.ones(1000, dtype=np.int64)
    took_s = (8e-3 + 1e-5 * size * (prefill + decodes)) * rng.lognormal(0.0, 0.03, 1000)
    end_s = np.cumsum(took_s)
    columns: dict[str, ArrayLike | None] = {
        "start_s": np.concatenate([[0.0], end_s[:-1]]),
        "end_s": end_s,
        "decodes": size * decodes,
        "prefill_tokens": size * prefill,
    }
    if sums:
        columns["decode_context_tokens"] = size * decodes * 100
        columns["prefill_chunk_squared_tokens"] = (size * prefill) ** 2
        columns["prefill_cross_tokens"] = 0 * size
    path = folder / "poor.parquet"
    write_step_trace(path, columns, {})
    return str(path)


@pytest.mark.parametrize("sums", [True, False])
@pytest.mark.parametrize(
    ("prefill", "decodes", "vary", "said"),
    [
        (0, 1, True, "no fitted step has prompt tokens"),
        (16, 0, True, "no fitted step has decodes"),
        (16, 4, False, "all fitted steps have the same numbers"),
        (0, 4, False, "no fitted step has prompt tokens"),
    ],
)
def test_no_block_comes_of_a_trace_that_lacks_a_load(
    prefill: int, decodes: int, vary: bool, said: str, sums: bool,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    trace = poor_trace(tmp_path, prefill, decodes, vary, sums)
    out = tmp_path / "fits" / "tier.yaml"
    for asked in ([], ["--out", str(out)], ["--out", str(out), "--feature-set", "C"]):
        assert run(["train", "step-time", trace, "--block-s", "0.5", *asked]) == 1
        shown = capsys.readouterr()
        assert said in shown.err
        assert "poor.parquet: no step_time block" in shown.err
        assert "rbx pool observe --drive" in shown.err
        assert "recommended: model" in shown.out
        assert "step_time:" not in shown.out
    assert run(["train", "step-time", trace, "--block-s", "0.5", "--json"]) == 1
    assert said in json.loads(capsys.readouterr().out)["missing"][0]
    assert not out.parent.exists()
