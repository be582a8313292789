"""A report says at its top how cut answers have come by a score."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rbx.report.analysis import analyse
from rbx.report.headline import headline
from rbx.report.load import read_sweep
from rbx.report.paired import Resampling
from tests.report.sweeps import POLICIES, SweepShape, write_sweep


def warnings_of(folder: Path, *, exponent: float | None = None, **manifest: Any) -> str:
    shape = SweepShape(policies=POLICIES[:2], rates_per_s=(4.0,), seeds=(0,), n_prompts=30, n_requests=60)
    write_sweep(folder, shape)
    path = folder / "manifest.json"
    noted = json.loads(path.read_text()) | manifest
    noted["config"].setdefault("workload", {})["cut_quality_exponent"] = exponent
    path.write_text(json.dumps(noted))
    analysis = analyse(read_sweep(folder), baseline=None, resampling=Resampling(n_resamples=50))
    return " ".join(headline(analysis).warnings)


def test_scores_graded_again_are_told_with_the_graders_agreement(tmp_path: Path) -> None:
    told = warnings_of(tmp_path, graded_again={"labels": 1328, "agreeing": 1324})
    assert "(rescored)" in told
    assert "1,324 of 1,328 labels" in told


@pytest.mark.parametrize(("exponent", "power"), [(1.0, "s^1"), (0.0, "s^0")])
def test_a_model_of_cut_answers_is_called_an_assumption(tmp_path: Path, exponent: float, power: str) -> None:
    told = warnings_of(tmp_path, exponent=exponent)
    assert f"{power}: an assumption (modelled)" in told


def test_nothing_is_said_where_cut_answers_have_no_score(tmp_path: Path) -> None:
    told = warnings_of(tmp_path)
    assert "modelled" not in told
    assert "rescored" not in told
