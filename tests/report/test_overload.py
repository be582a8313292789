"""What a report says of policies that do not keep up with their arrivals."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from rbx.report.analysis import Analysis, analyse
from rbx.report.duel_tables import tally_table
from rbx.report.headline import headline
from rbx.report.keeping_up import OVERLOADED_WORDS, UNTOLD_WORDS
from rbx.report.load import read_sweep
from rbx.report.overload_mark import marked, with_footnote
from rbx.report.paired import Resampling
from rbx.report.rate_tables import rate_tables
from rbx.report.run import Report, write_report
from rbx.report.sweep_tables import winners_table
from rbx.report.table import Column, Table, Value
from rbx.report.terminal import print_report
from tests.report.sweeps import POLICIES, SweepShape, write_sweep

QUICK = Resampling(n_resamples=200)
FOOTNOTE = f"† {OVERLOADED_WORDS}."
# The cells of a rate: these five at seed 0, then at seed 1.
CHOSEN = (POLICIES[1], POLICIES[4], *POLICIES[5:8])
RB_QUALITY, RB_MIXED, ROUND_ROBIN, SHORTEST, RANDOM = range(5)


def _queue_up(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    """A server that completes two requests where three arrive."""
    wait_s = 0.5 * np.asarray(columns["scheduled_s"])
    for name in ("first_token_s", "done_s"):
        columns[name] = np.asarray(columns[name]) + wait_s


def _shed(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    """A server that refuses one request in eight, and answers the others at once."""
    n = len(columns["request"])
    lost = np.arange(n) % 8 == 0
    columns["done_s"] = np.where(lost, np.nan, np.asarray(columns["first_token_s"]) + 1e-3)
    columns["first_token_s"] = np.where(lost, np.nan, columns["first_token_s"])
    columns["quality"] = np.where(lost, np.nan, columns["quality"])
    columns["status"] = np.where(lost, "error", "ok")
    summary["ok"], summary["error"] = int((~lost).sum()), int(lost.sum())


def _shape(**changes: Any) -> SweepShape:
    base: dict[str, Any] = {
        "policies": CHOSEN,
        "rates_per_s": (3.0, 6.0),
        "seeds": (0, 1),
        "n_prompts": 60,
        "n_requests": 1000,
    }
    return SweepShape(**(base | changes))


@pytest.fixture(scope="module")
def overloaded(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """``random`` queues at both rates, a seed of ``round-robin`` at the lower; at the upper an RB sheds."""
    upper = 2 * len(CHOSEN)
    queued = (RANDOM, RANDOM + 5, ROUND_ROBIN, upper + RANDOM, upper + RANDOM + 5)
    tamper = dict.fromkeys(queued, _queue_up)
    tamper |= dict.fromkeys((upper + RB_QUALITY, upper + RB_QUALITY + 5), _shed)
    folder = write_sweep(tmp_path_factory.mktemp("overloaded") / "s", _shape(tamper=tamper))
    return write_report(folder, resampling=QUICK)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    folder = write_sweep(tmp_path_factory.mktemp("calm") / "s", _shape(seeds=(0,)))
    return analyse(read_sweep(folder), baseline=None, resampling=QUICK)


def test_every_cell_and_point_says_whether_it_keeps_up(overloaded: Report) -> None:
    out = overloaded.page.parent
    cells = pq.read_table(out / "cells.parquet")
    assert cells.schema.field("sustained").type == pa.bool_()
    found = {(row["label"], row["rate_per_s"], row["seed"]): row["sustained"] for row in cells.to_pylist()}
    assert len(found) == 20
    behind = {key for key, sustained in found.items() if sustained is False}
    assert behind == {
        *((CHOSEN[RANDOM].label, rate, seed) for rate in (3.0, 6.0) for seed in (0, 1)),
        (CHOSEN[ROUND_ROBIN].label, 3.0, 0),
        *((CHOSEN[RB_QUALITY].label, 6.0, seed) for seed in (0, 1)),
    }
    assert all(found[key] is True for key in found if key not in behind)
    summary = json.loads((out / "summary.json").read_text())
    points = {(p["label"], r["rate_per_s"]): p for r in summary["rates"] for p in r["points"]}
    half = points[CHOSEN[ROUND_ROBIN].label, 3.0]
    assert half["sustained"] == [False, True]
    assert (half["keeps_up"], half["seeds_keeping_up"], half["seeds_judged"]) == (False, 1, 2)
    whole = points[CHOSEN[ROUND_ROBIN].label, 6.0]
    assert (whole["keeps_up"], whole["seeds_keeping_up"], whole["seeds_judged"]) == (True, 2, 2)


def test_short_cells_are_not_judged(tmp_path: Path) -> None:
    shape = _shape(n_requests=300, tamper=dict.fromkeys(range(20), _queue_up))
    report = write_report(write_sweep(tmp_path / "s", shape), resampling=QUICK)
    cells = pq.read_table(report.page.parent / "cells.parquet")
    assert cells.schema.field("sustained").type == pa.bool_()
    assert cells["sustained"].to_pylist() == [None] * 20
    point = report.summary["rates"][0]["points"][0]
    assert (point["sustained"], point["keeps_up"], point["seeds_judged"]) == ([None, None], None, 0)
    page = report.page.read_text(encoding="utf-8")
    assert "†" not in page
    assert "Hollow" not in page
    table = next(rate_tables(report.analysis.rates[0], report.analysis.baseline_label))
    column = [c.title for c in table.columns].index("keep up")
    assert {row[column].text for row in table.rows} == {"?"}


def test_what_cannot_be_told_does_not_look_like_keeping_up(tmp_path: Path) -> None:
    shape = _shape(n_requests=300, seeds=(0,))
    report = write_report(write_sweep(tmp_path / "s", shape), resampling=QUICK)
    analysis = report.analysis
    cells, differences, tails, *_ = rate_tables(analysis.rates[0], analysis.baseline_label)
    for table in (cells, differences, tails, winners_table(analysis)):
        assert table.footnote == f"? {UNTOLD_WORDS}.", table.caption
        assert "?" in {value.flag for row in table.rows for value in row}
    assert any(line.startswith("Of 10 of 10 cells (policy × rate)") for line in headline(analysis).warnings)
    assert '<b class="flag">?</b>' in report.page.read_text(encoding="utf-8")
    console = Console(width=200, record=True, file=None, quiet=False)
    with console.capture() as capture:
        print_report(console, analysis)
    assert f"? {UNTOLD_WORDS}." in capture.get()


def test_one_table_explains_both_marks(overloaded: Report) -> None:
    points = {result.point.keeps_up: result.point for result in overloaded.analysis.results}
    untold = replace(points[True], sustained=(None, None))
    value = Value("1", sort=1.0)
    shown = tuple((marked(value, *each),) for each in ((points[True],), (untold,), (points[False], untold)))
    assert [row[0].flag for row in shown] == ["", "?", "†"]
    table = with_footnote(Table("", "", (Column("E2E, s"),), shown))
    assert table.footnote == f"{FOOTNOTE} ? {UNTOLD_WORDS}."


def test_latencies_of_overloaded_policies_bear_a_mark_that_a_footnote_explains(overloaded: Report) -> None:
    analysis = overloaded.analysis
    cells, differences, tails, throughput, *_ = rate_tables(analysis.rates[0], analysis.baseline_label)
    flagged = {"E2E, s", "p50", "p95", "p99", "TTFT, s"}
    for row in cells.rows:
        expected = flagged if row[0].text in (CHOSEN[RANDOM].label, CHOSEN[ROUND_ROBIN].label) else set()
        marks = {c.title for c, value in zip(cells.columns, row, strict=True) if value.flag}
        assert marks == expected, row[0].text
    kept = {row[0].text: row[2].text for row in cells.rows}
    assert kept[CHOSEN[RANDOM].label] == "0 / 2"
    assert kept[CHOSEN[ROUND_ROBIN].label] == "1 / 2"
    assert kept[CHOSEN[SHORTEST].label] == "2 / 2"
    assert (cells.footnote, differences.footnote, tails.footnote) == (FOOTNOTE,) * 3
    assert throughput.footnote == ""


def test_without_overload_nothing_is_marked(calm: Analysis) -> None:
    assert all(result.point.keeps_up for result in calm.results)
    tables = [*rate_tables(calm.rates[0], calm.baseline_label), winners_table(calm)]
    assert not any(value.flag for table in tables for row in table.rows for value in row)
    assert not any(table.footnote for table in tables)
    words = headline(calm)
    lines = [line for each in words.answer for line in each.lines]
    assert len(lines) > 6
    assert not any("keep up" in line for line in (*lines, *words.warnings))


def test_page_figures_and_terminal_explain_the_mark(overloaded: Report) -> None:
    page = overloaded.page.read_text(encoding="utf-8")
    assert page.count('<b class="flag">†</b>') > 20
    assert f'<p class="footnote">{FOOTNOTE}</p>' in page
    assert '<th scope="row">keeps up</th>' in page
    figures = overloaded.page.parent / "figures"
    for stem in ("quality-latency-1", "quality-latency-2", "latency-load", "radar"):
        words = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", (figures / f"{stem}.svg").read_text()))
        assert f"Hollow: {OVERLOADED_WORDS}." in words, stem
    assert f"Not keeping up with arrivals: {CHOSEN[ROUND_ROBIN].label}, {CHOSEN[RANDOM].label}." in page
    console = Console(width=200, record=True, file=None, quiet=False)
    with console.capture() as capture:
        print_report(console, overloaded.analysis)
    printed = capture.get()
    assert FOOTNOTE in printed
    row = next(line for line in printed.splitlines() if line.startswith(f" {CHOSEN[RANDOM].label} "))
    assert row.count("†") == 3  # E2E, p99 and TTFT


def test_the_widest_lead_is_between_policies_that_keep_up(overloaded: Report) -> None:
    analysis = overloaded.analysis
    words = headline(analysis)
    widest = tally_table(analysis).rows[0][-1]
    assert " at λ = " in widest.sub
    assert "against " in widest.sub
    assert f"against {CHOSEN[RANDOM].label}" not in widest.sub
    # Without the rule the queue would have made the widest lead.
    trades = [
        (d.at_quality.saving.value / d.baseline.metrics.e2e_s.mean, d)
        for rate in analysis.rates
        for d in rate.duels
        if d.plane.name == "latency" and d.won and d.at_quality is not None
    ]
    assert max(trades, key=lambda pair: pair[0])[1].baseline.is_overloaded
    for rate in analysis.rates:
        for duel in rate.duels:
            if duel.at_quality_kept_up is None:
                continue
            assert not duel.baseline.is_overloaded
            assert not duel.at_quality_kept_up.point.is_overloaded
            assert duel.at_quality_kept_up.quality_gain.value >= 0
    assert any(
        "3 of 6 passthrough cells compared, and 1 of 4 RouteBalance cells" in w for w in words.warnings
    )


def test_where_no_two_keep_up_no_saving_is_named(tmp_path: Path) -> None:
    shape = _shape(seeds=(0,), rates_per_s=(6.0,), tamper=dict.fromkeys((2, 3, 4), _queue_up))
    found = analyse(read_sweep(write_sweep(tmp_path / "s", shape)), baseline=None, resampling=QUICK)
    words = headline(found)
    against, tally, _ = words.answer
    assert tally.lines[0].startswith("Quality and latency: RouteBalance is ahead of 3 of 3 passthrough cells")
    assert "no saving is named" in against.lines[0]
    assert tally_table(found).rows[0][-1].text == "–"
    assert any("3 of 3 passthrough cells compared, and 0 of 2" in line for line in words.warnings)
    assert "The baseline itself does not keep up at λ = 6." in winners_table(found).note


def test_the_fastest_policy_is_one_that_keeps_up(overloaded: Report) -> None:
    """The policy that refuses requests answers the others at once: it leads on paper, and stands back."""
    rate = overloaded.analysis.rates[1]
    by_label = {result.point.label: result.point for result in rate.results}
    shedding, base = by_label[CHOSEN[RB_QUALITY].label], by_label[CHOSEN[SHORTEST].label]
    assert shedding.is_overloaded
    assert shedding.metrics.quality_mean > base.metrics.quality_mean
    assert shedding.metrics.e2e_s.mean == min(point.metrics.e2e_s.mean for point in by_label.values())
    winners = {None if w.plane is None else w.plane.name: w.result.point for w in rate.winners}
    assert not winners["latency"].is_overloaded
    assert not winners["throughput"].is_overloaded


def test_where_nothing_keeps_up_the_fastest_is_still_named_and_marked(tmp_path: Path) -> None:
    shape = _shape(seeds=(0,), rates_per_s=(6.0,), tamper=dict.fromkeys(range(5), _queue_up))
    found = analyse(read_sweep(write_sweep(tmp_path / "s", shape)), baseline=None, resampling=QUICK)
    table = winners_table(found)
    assert [value.flag for value in table.rows[0]] == ["", "†", "†", "†", "†"]
    assert table.footnote == FOOTNOTE
