"""Records whose targets or predictions can't be right: their cell is set aside, with the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rbx.report.load import read_sweep
from tests.report.sweeps import ON_TIME_POLICIES, SweepShape, Tamper, write_sweep

SHAPE = SweepShape(
    policies=ON_TIME_POLICIES[:2], rates_per_s=(6.0,), n_prompts=20, n_requests=20, ttft_target=True
)


def _put(name: str, value: float | None) -> Tamper:
    def tamper(columns: dict[str, Any], summary: dict[str, Any]) -> None:
        values = pa.array(columns[name], from_pandas=True).to_pylist()
        values[3] = value
        columns[name] = pa.array(values)

    return tamper


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (_put("ttft_target_s", None), "1 requests have no ttft_target_s, but the workload has TTFT targets"),
        (_put("ttft_target_s", -0.2), "column ttft_target_s holds a negative value: -0.2"),
        (_put("ttft_target_s", np.inf), "column ttft_target_s holds NaN or infinity"),
        (_put("predicted_ttft_s", -1.0), "column predicted_ttft_s holds a negative value: -1"),
        (_put("on_time_candidates", -1), "column on_time_candidates holds a negative value: -1"),
    ],
)
def test_a_wrong_number_sets_its_cell_aside(tmp_path: Path, tamper: Tamper, words: str) -> None:
    sweep = read_sweep(write_sweep(tmp_path / "s", replace(SHAPE, tamper={0: tamper})))
    assert len(sweep.cells) == 1
    assert any(words in reason for reason in sweep.invalid[0].reasons), sweep.invalid[0].reasons


def test_a_target_that_the_workload_does_not_have_is_refused(tmp_path: Path) -> None:
    shape = replace(SHAPE, ttft_target=False, tamper={0: _put("ttft_target_s", 0.2)})
    (bad,) = read_sweep(write_sweep(tmp_path / "s", shape)).invalid
    assert "column ttft_target_s holds values, but the workload has no TTFT target" in bad.reasons


def test_requests_may_be_shed(tmp_path: Path) -> None:
    def shed(columns: dict[str, Any], summary: dict[str, Any]) -> None:
        columns["decision_mode"] = np.where(np.arange(20) == 3, "shed", columns["decision_mode"])

    sweep = read_sweep(write_sweep(tmp_path / "s", replace(SHAPE, tamper={0: shed})))
    assert sweep.invalid == ()
    assert [int(cell.requests.shed.sum()) for cell in sweep.cells] == [1, 0]
    assert sweep.cells[0].requests.shed[3]
