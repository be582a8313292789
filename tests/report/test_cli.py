"""``rbx report`` as typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from rbx.cli.main import run
from tests.report.sweeps import POLICIES, SweepShape, write_sweep

_SMALL = SweepShape(n_prompts=25, n_requests=25, rates_per_s=(6.0, 12.0), policies=POLICIES[3:7])


def _miscount(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    summary["ok"] -= 1


def test_the_terminal_says_what_was_run_and_where_the_page_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_sweep(tmp_path / "s", _SMALL)
    assert run(["report", str(folder), "--resamples", "200"]) == 0
    out = capsys.readouterr().out
    assert "SYNTHETIC GRID · SIMULATED ENGINE" in out
    assert "4 policies at 2 arrival rates" in out
    assert "Where RouteBalance is not ahead" in out
    assert out.rstrip().endswith(str(folder / "report" / "index.html"))


def test_json_is_the_summary_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_sweep(tmp_path / "s", _SMALL)
    label = POLICIES[5].label
    assert run(["report", str(folder), "--json", "--resamples", "200", "--baseline", label]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((folder / "report" / "summary.json").read_text())
    assert printed["baseline"] == label


def test_invalid_cells_exit_with_3_after_the_report_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = SweepShape(
        n_prompts=25, n_requests=25, rates_per_s=(6.0, 12.0), policies=POLICIES[3:7], tamper={1: _miscount}
    )
    folder = write_sweep(tmp_path / "s", shape)
    assert run(["report", str(folder), "--resamples", "200"]) == 3
    assert "1 cell can't be reported" in capsys.readouterr().out
    page = (folder / "report" / "index.html").read_text(encoding="utf-8")
    assert "25 records are ok, the summary says 24" in page


def test_mistakes_have_their_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_sweep(tmp_path / "s", _SMALL)
    assert run(["report", str(folder), "--baseline", "nobody"]) == 2
    assert "there are: rb q0.10" in capsys.readouterr().err
    assert run(["report", str(tmp_path / "nowhere")]) == 1
    assert "no manifest.json" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["report", "validate"])
@pytest.mark.parametrize("count", ["99", "99999999999"])
def test_resamples_that_no_memory_holds_are_refused_as_too_few_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, count: str
) -> None:
    folder = write_sweep(tmp_path / "s", _SMALL)
    assert run([command, str(folder), "--resamples", count]) == 2
    assert "'--resamples'" in capsys.readouterr().err


def test_labels_can_not_drive_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_sweep(tmp_path / "s", _SMALL)
    path = folder / "manifest.json"
    evil = "[red]\x1b[31mboo[/nothing]"
    path.write_text(path.read_text().replace('"passthrough/round-robin"', json.dumps(evil)))
    assert run(["report", str(folder), "--resamples", "200"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[red]\\x1b[31mboo" in out.replace("\n", "").replace(" ", "")
    figures = list((folder / "report" / "figures").glob("*.svg"))
    assert len(figures) == 7
    assert all(ElementTree.parse(figure).getroot().tag.endswith("svg") for figure in figures)
