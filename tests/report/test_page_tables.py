"""Tables and figures of a report as files."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rbx.report.analysis import analyse
from rbx.report.load import read_sweep
from rbx.report.mix_words import common_start, mix_words
from rbx.report.page_tables import page_tables
from rbx.report.paired import Resampling
from rbx.report.run import write_report
from tests.report.sweeps import ON_TIME_POLICIES, POLICIES, SweepShape, write_sweep

QUICK = Resampling(n_resamples=100)
EVIL = r"always:\input{x}<b>_%|"
SHAPE = SweepShape(policies=POLICIES[4:7], rates_per_s=(6.0, 12.0), n_prompts=20, n_requests=20, name=EVIL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_sweep(tmp_path_factory.mktemp("results") / "s", SHAPE)
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace("passthrough/round-robin", EVIL.replace("\\", "\\\\")))
    return folder


def test_every_table_of_the_page_is_three_files(folder: Path) -> None:
    page = write_report(folder, resampling=QUICK).page
    written = {path.name for path in (page.parent / "tables").iterdir()}
    text = page.read_text(encoding="utf-8")
    # Tables without rows are on the page alone, as an empty list of what there might have been.
    tables = page_tables(analyse(read_sweep(folder), baseline=None, resampling=QUICK))
    named = list(tables.named())
    assert written == {f"{name}{suffix}" for name, _ in named for suffix in (".csv", ".md", ".tex")}
    assert len(named) == text.count('<figure class="table">')
    assert {"best-policy-at-each-rate", "rate-1-cells", "rate-2-cells", "rate-2-tails"} <= {
        n for n, _ in named
    }
    with (page.parent / "tables" / "rate-1-cells.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert len({len(row) for row in rows}) == 1
    assert {row[0] for row in rows[1:]} == {POLICIES[4].label, EVIL, POLICIES[6].label}
    for name, table in named:
        for suffix in (".md", ".tex"):
            shown = (page.parent / "tables" / f"{name}{suffix}").read_text(encoding="utf-8")
            assert "SYNTHETIC GRID" in shown
            assert "\\input" not in shown.replace("\\\\input", "")
            assert "<b>" not in shown
            assert shown.count("\n") >= len(table.rows)


def test_on_time_tables_are_among_them(tmp_path: Path) -> None:
    shape = SweepShape(
        policies=ON_TIME_POLICIES, rates_per_s=(6.0, 12.0), n_prompts=20, n_requests=40, ttft_target=True
    )
    sweep = read_sweep(write_sweep(tmp_path / "s", shape))
    named = dict(page_tables(analyse(sweep, baseline=None, resampling=QUICK)).named())
    assert len(named) > 20
    assert any(name.startswith("rate-2-on-time") or "in-time" in name for name in named)


def test_figures_are_pdf_too_with_fonts_that_journals_take(folder: Path) -> None:
    figures = write_report(folder, resampling=QUICK).page.parent / "figures"
    pdfs = sorted(figures.glob("*.pdf"))
    assert [path.stem for path in pdfs] == sorted(path.stem for path in figures.glob("*.svg"))
    assert len(pdfs) >= 6
    before = [path.read_bytes() for path in pdfs]
    for content in before:
        assert b"/FontFile2" in content  # TrueType inside
        assert b"/Type3" not in content
        assert b"/CreationDate" not in content
    write_report(folder, resampling=QUICK)
    assert [path.read_bytes() for path in pdfs] == before


def test_a_mix_is_told_in_few_words() -> None:
    shares = {"Qwen2.5-7B": 0.3, "Qwen2.5-14B": 0.7, "Qwen2.5-72B": 0.0}
    start = common_start([shares, {"Qwen2.5-3B": 1.0}])
    assert start == "Qwen2.5-"
    assert mix_words(shares, start) == "14B 70 %, 7B 30 %"
    assert common_start([{"Qwen2.5-7B": 1.0}]) == ""
    assert common_start([{"gpt-4o": 0.5, "llama": 0.5}]) == ""
    assert mix_words({}, "") == ""
