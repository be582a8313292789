"""Decision time: its table, and the warning where requests wait for the decision and not for servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbx.report.analysis import Analysis, analyse
from rbx.report.decision_tables import decisions_table
from rbx.report.headline import headline
from rbx.report.load import read_sweep
from rbx.report.paired import Resampling
from rbx.report.run import write_report
from tests.report.sweeps import POLICIES, SweepShape, Tamper, write_sweep

QUICK = Resampling(n_resamples=100)
CHOSEN = POLICIES[4:7]


def _waiting(wait_s: float, *, served_s: float = 0.0) -> Tamper:
    """Every request waits for its batch, and then ``served_s`` more for its first token."""

    def tamper(columns: dict[str, Any], summary: dict[str, Any]) -> None:
        columns["batch_wait_s"] = np.full(len(columns["request"]), wait_s)
        for name in ("decided_s", "dispatched_s", "first_token_s", "done_s"):
            late_s = wait_s if name in ("decided_s", "dispatched_s") else wait_s + served_s
            columns[name] = np.asarray(columns[name]) + late_s

    return tamper


def _analysed(tmp_path: Path, tamper: dict[int, Tamper]) -> Analysis:
    shape = SweepShape(policies=CHOSEN, rates_per_s=(6.0,), n_prompts=30, n_requests=30, tamper=tamper)
    return analyse(read_sweep(write_sweep(tmp_path / "s", shape)), baseline=None, resampling=QUICK)


@pytest.mark.parametrize(
    ("wait_s", "served_s", "words"),
    [
        (3.0, 0.0, "the decision loop, not the servers, is saturated (encoder static)"),
        (0.5, 0.0, "the decision loop, not the servers, is saturated (encoder static)"),
        (3.0, 20.0, "the decision loop is saturated, and servers queue too (encoder static)"),
        (0.15, 0.0, ""),  # most of TTFT, but no longer than a batching window
        (0.5, 20.0, ""),
    ],
)
def test_a_dominant_wait_is_warned_of(tmp_path: Path, wait_s: float, served_s: float, words: str) -> None:
    found = _analysed(tmp_path, {0: _waiting(wait_s, served_s=served_s)})
    lines = [line for line in headline(found).warnings if "decision loop" in line]
    assert len(lines) == (1 if words else 0)
    tones = [row[2].tone for row in decisions_table(found.rates[0]).rows]
    assert tones == ["bad" if words else "", "", ""]
    if words:
        assert words in lines[0]
        assert f"waits {wait_s:.3g}" in lines[0].replace("3.00", "3").replace("0.500", "0.5")
        assert CHOSEN[0].label in lines[0]
        assert "In 1 of 3 cells" in lines[0]


def test_the_table_breaks_decision_time_down(tmp_path: Path) -> None:
    def halves(columns: dict[str, Any], summary: dict[str, Any]) -> None:
        # 20 requests in batches of 4, 10 alone: 15 batches of 2 requests in the mean.
        columns["batch_size"] = np.where(np.arange(30) < 20, 4, 1)

    found = _analysed(tmp_path, {0: halves})
    table = decisions_table(found.rates[0])
    titles = [column.title for column in table.columns]
    row = dict(zip(titles, table.rows[0], strict=True))
    assert (row["n"].text, row["batch wait, ms"].text, row["encode, ms"].text) == ("30", "20.0", "6.00")
    assert row["score, ms"].text == "0.400"
    assert row["total, ms"].text == "26.4"
    assert row["batch size"].text == "2.00"
    ttft = found.results[0].point.metrics.ttft_s.mean
    assert row["of TTFT"].sort == pytest.approx(0.0264 / ttft, rel=1e-5)
    assert [dict(zip(titles, each, strict=True))["batch size"].text for each in table.rows[1:]] == [
        "4.00"
    ] * 2


def _scored_late(wait_s: float) -> Tamper:
    """Every request waits for a scoring call before its batch."""

    def tamper(columns: dict[str, Any], summary: dict[str, Any]) -> None:
        columns["scoring_wait_s"] = np.full(len(columns["request"]), wait_s)
        for name in ("decided_s", "dispatched_s", "first_token_s", "done_s"):
            columns[name] = np.asarray(columns[name]) + wait_s

    return tamper


def test_the_wait_for_scoring_is_a_part_of_its_own_and_warned_of(tmp_path: Path) -> None:
    found = _analysed(tmp_path, {0: _scored_late(3.0), 1: _scored_late(0.004)})
    table = decisions_table(found.rates[0])
    rows = [dict(zip([c.title for c in table.columns], row, strict=True)) for row in table.rows]
    assert [row["scoring wait, ms"].text for row in rows] == ["3,000", "4.00", "0"]
    assert [row["scoring wait, ms"].tone for row in rows] == ["bad", "", ""]
    assert [row["batch wait, ms"].tone for row in rows] == ["", "", ""]
    assert [row["total, ms"].text for row in rows] == ["3,026", "30.4", "26.4"]
    ttft = found.results[0].point.metrics.ttft_s.mean
    assert rows[0]["of TTFT"].sort == pytest.approx(3.0264 / ttft, rel=1e-5)
    (line,) = [line for line in headline(found).warnings if "scoring" in line]
    assert "In 1 of 3 cells (policy × rate) the scoring of prompts, not the servers, is saturated" in line
    assert "a request waits 3.00 s to be scored" in line
    assert CHOSEN[0].label in line


def test_a_wait_for_scoring_below_zero_is_refused(tmp_path: Path) -> None:
    shape = SweepShape(
        policies=CHOSEN, rates_per_s=(6.0,), n_prompts=30, n_requests=30, tamper={0: _scored_late(-1e-3)}
    )
    sweep = read_sweep(write_sweep(tmp_path / "s", shape))
    (refused,) = sweep.invalid
    assert any("column scoring_wait_s holds a negative value" in reason for reason in refused.reasons)


def test_the_table_is_open_at_every_rate(tmp_path: Path) -> None:
    shape = SweepShape(policies=CHOSEN, rates_per_s=(6.0, 12.0), n_prompts=30, n_requests=30)
    page = write_report(write_sweep(tmp_path / "s", shape), resampling=QUICK).page.read_text(encoding="utf-8")
    section = page[page.index('<section id="decisions">') : page.index('<section id="references">')]
    assert section.count("<details open>") == section.count("<h3>Decision time</h3>") == 2
