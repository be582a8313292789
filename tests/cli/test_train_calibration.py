"""``rbx train --calibrate``: the table of what it measured."""

from __future__ import annotations

import numpy as np
import pytest

from rbx.cli.train_calibration import show_residuals
from rbx.heads.calibration import Calibration
from rbx.heads.residuals import Residuals


def test_a_narrow_terminal_cuts_no_figure_and_no_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    minute_early = Residuals.of([np.full(1000, -59.9345), np.linspace(0.0, 0.1, 1001)])
    show_residuals(
        Calibration(("72b-a100x4", "3b-a30"), {"lps": minute_early}, {"xgboost": minute_early}, {})
    )
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines() if " lps " in line]
    assert lines == [
        ["TTFT", "lps", "72b-a100x4", "1000", *["-59934"] * 4, "0.0"],
        ["TTFT", "lps", "3b-a30", "1001", "+10.0", "+50.0", "+70.0", "+90.0", "28.9"],
    ]
    assert "TPOT xgboost" in shown
    assert "…" not in shown
