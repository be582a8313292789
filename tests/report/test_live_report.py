"""Reports of live sweeps: the engine's name everywhere, invalid cells left out, answers beside quality."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbx.cli.main import run
from rbx.errors import StoreError
from rbx.report.analysis import analyse
from rbx.report.engine import kinds, served_words
from rbx.report.headline import headline
from rbx.report.live_tables import live_tables
from rbx.report.load import read_sweep
from rbx.report.paired import Resampling
from rbx.report.table import Table
from rbx.sweep.live.summary import Lengths, LiveSummary, Matches, PrefixCache
from rbx.sweep.live.table import live_table, write_live
from tests.report.sweeps import POLICIES, SweepShape, write_sweep

FOUR = POLICIES[:1] + POLICIES[5:8]


def live_summary(**changes: Any) -> LiveSummary:
    given: dict[str, Any] = {
        "reasons": (),
        "warnings": (),
        "fault": None,
        "simulated": False,
        "time_scale": None,
        "started": "2026-01-01T00:00:00+00:00",
        "config_version": "2-abc",
        "client": {"asked_per_s": 6.0, "achieved_per_s": 6.01, "schedule_delay_p99_s": 0.0042, "cpu_s": 1.5},
        "warm_up": {"ok": 15, "error": 1},
        "prefix_cache": PrefixCache("salt", 1000.0, 250.0),
        "matches": {"3b-a30": Matches(40, 30), "7b-a30": Matches(10, 0)},
        "lengths": {"3b-a30": Lengths(40, 4000, 3000, 25), "7b-a30": Lengths(10, 2000, 2000, 0)},
        **changes,
    }
    return LiveSummary(**given)


def told(columns: dict[str, Any], summary: dict[str, Any], live: LiveSummary) -> None:
    summary["live"] = live


def swept(folder: Path, lives: list[LiveSummary], **changes: Any) -> Path:
    """A live sweep of four policies at one rate."""
    shape = SweepShape(
        policies=FOUR,
        rates_per_s=(6.0,),
        tamper={number: partial(told, live=live) for number, live in enumerate(lives)},
        **changes,
    )
    write_sweep(folder, shape)
    path = folder / "manifest.json"
    manifest = {**json.loads(path.read_text()), "engine": "live", "simulated": False, "synthetic_grid": False}
    path.write_text(json.dumps(manifest))
    return folder


def shown(table: Table, row: int = 0) -> dict[str, str]:
    return {column.title: value.text for column, value in zip(table.columns, table.rows[row], strict=True)}


def test_live_and_mocked_sweeps_are_called_what_they_are(tmp_path: Path) -> None:
    real = read_sweep(swept(tmp_path / "real", 4 * [live_summary()]))
    assert kinds(real) == ("LIVE SERVERS",)
    assert "live servers" in served_words(real)
    mocked = live_summary(simulated=True, time_scale=4.0)
    mock = read_sweep(swept(tmp_path / "mock", [*3 * [live_summary()], mocked]))
    assert kinds(mock) == ("LIVE CLIENT", "SIMULATED ENGINE")
    assert "4 simulated seconds" in served_words(mock)


def test_the_engine_stands_on_every_table_of_the_page(tmp_path: Path) -> None:
    folder = swept(tmp_path / "sweep", 4 * [live_summary(simulated=True, time_scale=2.0)])
    assert run(["report", str(folder), "--resamples", "100"]) == 0
    page = (folder / "report" / "index.html").read_text()
    assert page.count('<figure class="table">') == page.count("LIVE CLIENT · SIMULATED ENGINE</b>") > 10
    summary = json.loads((folder / "report" / "summary.json").read_text())
    assert (summary["kinds"], summary["simulated"]) == (["LIVE CLIENT", "SIMULATED ENGINE"], True)


def test_invalid_cells_are_left_out_and_listed_with_their_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = live_summary(reasons=("client-bound: sent half of what was asked",))
    folder = swept(tmp_path / "sweep", [late, *3 * [live_summary()]])
    assert run(["report", str(folder), "--resamples", "100"]) == 3
    assert "client-bound: sent half" in (folder / "report" / "index.html").read_text()
    summary = json.loads((folder / "report" / "summary.json").read_text())
    assert summary["cells"]["reported"] == 3
    assert [each["reasons"] for each in summary["cells"]["invalid"]] == [list(late.reasons)]
    labels = {point["label"] for rate in summary["rates"] for point in rate["points"]}
    assert labels == {policy.label for policy in FOUR[1:]}


def test_the_client_the_answers_and_their_lengths_have_a_table(tmp_path: Path) -> None:
    sweep = read_sweep(swept(tmp_path / "sweep", 4 * [live_summary(warnings=("something odd",))]))
    client, answers, _ = live_tables(sweep)
    assert len(client.rows) == 4
    first = shown(client)
    assert (first["asked req/s"], first["sent req/s"], first["delay p99, ms"]) == ("6.00", "6.01", "4.20")
    assert (first["warm-up"], first["prefix hits"], first["beware"]) == ("15 / 16", "25 %", "something odd")
    small, large = (shown(answers, row) for row in range(2))
    assert (small["tier"], small["compared"], small["same text"]) == ("3b-a30", "160", "75 %")
    assert (small["tokens expected"], small["tokens delivered"], small["short"]) == ("100", "75.0", "62 %")
    assert (large["same text"], large["short"]) == ("0 %", "0 %")


def test_how_far_looked_up_quality_may_be_trusted_stands_at_the_top(tmp_path: Path) -> None:
    sweep = read_sweep(swept(tmp_path / "sweep", 4 * [live_summary()]))
    words = " ".join(headline(analyse(sweep, baseline=None, resampling=Resampling(n_resamples=100))).warnings)
    assert "60 % of the 200 served answers that can be compared are the same text" in words
    assert "Answers were 17 % shorter than expected" in words
    silent = read_sweep(swept(tmp_path / "silent", 4 * [live_summary(matches={}, lengths={})]))
    words = " ".join(
        headline(analyse(silent, baseline=None, resampling=Resampling(n_resamples=100))).warnings
    )
    assert "the grid holds no texts" in words


def test_completed_requests_and_all_are_told_apart(tmp_path: Path) -> None:
    sweep = read_sweep(swept(tmp_path / "sweep", 4 * [live_summary()], failures=0.2))
    populations = live_tables(sweep)[2]
    for cell, row in zip(sweep.cells, range(4), strict=True):
        requests, texts = cell.requests, shown(populations, row)
        assert texts["n ok"] == str(int(requests.ok.sum()))
        assert texts["n ended"] == "150"
        assert 0 < requests.ok.sum() < 150
        e2e_s = requests.done_s - requests.scheduled_s
        assert texts["E2E ok, s"] == f"{e2e_s[requests.ok].mean():.3g}"
        known = e2e_s[np.isfinite(e2e_s)]
        assert texts["E2E ended, s"] == f"{known.mean():.3g}"


def test_a_live_server_may_count_tokens_that_it_never_shows(tmp_path: Path) -> None:
    def mute(columns: dict[str, Any], summary: dict[str, Any], live: LiveSummary | None) -> None:
        columns["first_token_s"] = np.array(columns["first_token_s"], dtype=float)
        columns["first_token_s"][:1] = np.nan
        if live is not None:
            summary["live"] = live

    for name, live, valid in (("live", live_summary(), True), ("simulated", None, False)):
        shape = SweepShape(
            policies=FOUR[:1], rates_per_s=(6.0,), slo=False, tamper={0: partial(mute, live=live)}
        )
        folder = write_sweep(tmp_path / name, shape)
        if valid:
            assert len(read_sweep(folder).cells) == 1
        else:
            with pytest.raises(StoreError, match="tokens but no first_token_s"):
                read_sweep(folder)


def test_a_simulated_sweep_has_none_of_it(sweep_folder: Path) -> None:
    sweep = read_sweep(sweep_folder)
    assert live_tables(sweep) == ()
    assert kinds(sweep) == ("SYNTHETIC GRID", "SIMULATED ENGINE")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.unlink(), "is missing"),
        (
            lambda path: path.write_bytes(path.read_bytes()[:-40]),
            "is not the file its summary was written for",
        ),
        (lambda path: path.write_bytes(b""), "is not the file its summary was written for"),
    ],
    ids=["missing", "truncated", "emptied"],
)
def test_a_cell_whose_stamps_are_not_those_it_was_written_with_is_left_out_by_name(
    tmp_path: Path, damage: Callable[[Path], None], words: str
) -> None:
    folder = swept(tmp_path / "live", 4 * [live_summary()])
    cells = sorted((folder / "cells").glob("*.json"))
    for path in cells:
        digest = write_live(folder, path.stem, live_table([]))
        content = json.loads(path.read_text())
        content["live"]["table_sha256"] = digest
        path.write_text(json.dumps(content))
    assert run(["report", str(folder), "--resamples", "100"]) == 0
    assert read_sweep(folder).invalid == ()
    name = cells[1].stem
    damage(folder / "live" / f"{name}.parquet")
    assert run(["report", str(folder), "--resamples", "100"]) == 3
    (invalid,) = read_sweep(folder).invalid
    assert invalid.spec.cell_id == name
    assert f"live/{name}.parquet {words}" in invalid.reasons[0]
    assert "--retry-invalid" in invalid.reasons[0]
    assert name in (folder / "report" / "index.html").read_text(encoding="utf-8")
