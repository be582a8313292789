"""The files of a report: complete, self-contained, escaped, labelled and the same every time."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rbx.config.policy import RoutedPolicy
from rbx.errors import StoreError
from rbx.report.paired import Resampling
from rbx.report.run import Report, write_report
from tests.report.browser import Parsed
from tests.report.sweeps import POLICIES, SweepShape, write_sweep

QUICK = Resampling(n_resamples=200)
EVIL = "<script>alert('x')</script>$[bold]{{ 7*7 }}"


@pytest.fixture(scope="module")
def report(sweep_folder: Path) -> Report:
    return write_report(sweep_folder, resampling=QUICK)


def test_every_file_is_there_and_speaks_of_every_cell(report: Report) -> None:
    out = report.page.parent
    cells = pq.read_table(out / "cells.parquet")
    assert cells.num_rows == 60
    assert len(set(cells["cell_id"].to_pylist())) == 60
    assert cells["e2e_mean_s"].null_count == 0
    summary = json.loads((out / "summary.json").read_text())
    assert summary["simulated"] is True
    assert summary["synthetic_grid"] is True
    assert summary["intervals"]["n_resamples"] == 200
    assert [len(rate["points"]) for rate in summary["rates"]] == [10, 10, 10]
    interval = summary["rates"][0]["points"][0]["against_baseline"]["e2e_p99_s"]
    assert interval["low"] <= interval["value"] <= interval["high"]
    names = {path.name for path in (out / "figures").iterdir()}
    for stem in (
        "quality-latency-1",
        "latency-load",
        "quality-throughput",
        "quality-cost",
        "radar",
        "tier-mix",
    ):
        assert {f"{stem}.svg", f"{stem}.png", f"{stem}.pdf"} <= names


def test_the_page_asks_nothing_of_the_network(report: Report) -> None:
    page = report.page.read_text(encoding="utf-8")
    parsed = Parsed(page)
    loaded = [
        (tag, name, value) for tag, name, value in parsed.attributes if name in ("src", "srcset", "action")
    ]
    assert loaded == []
    links = [value for _, name, value in parsed.attributes if name in ("href", "xlink:href")]
    assert links
    assert all(link.startswith("#") for link in links)
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert "default-src 'none'" in page


def test_the_page_is_well_formed_with_ids_of_its_own(report: Report) -> None:
    parsed = Parsed(report.page.read_text(encoding="utf-8"))
    assert len(parsed.ids) == len(set(parsed.ids))
    targets = {value[1:] for _, name, value in parsed.attributes if name in ("href", "xlink:href")}
    assert targets <= set(parsed.ids)
    assert parsed.headings[0] == 1
    assert parsed.headings.count(1) == 1
    assert all(
        after <= before + 1 for before, after in zip(parsed.headings, parsed.headings[1:], strict=False)
    )
    roles = [(name, value) for _, name, value in parsed.attributes if name == "role"]
    labels = [value for _, name, value in parsed.attributes if name == "aria-label"]
    assert roles.count(("role", "img")) == 8
    assert any(label.startswith("Mean quality against mean latency of 10 policies") for label in labels)


def test_the_kind_of_data_stands_on_every_table_and_figure(report: Report) -> None:
    page = report.page.read_text(encoding="utf-8")
    tables = re.findall(r'<figure class="table">.*?</figcaption>', page, flags=re.DOTALL)
    assert len(tables) == 6 + 3 * 8
    assert all("SYNTHETIC GRID · SIMULATED ENGINE" in table for table in tables)
    for path in (report.page.parent / "figures").glob("*.svg"):
        svg = path.read_text(encoding="utf-8")
        assert "SYNTHETIC GRID · SIMULATED ENGINE" in svg, path.name
        assert "scheduled requests" in svg, path.name


def test_real_grids_and_live_engines_carry_no_such_stamp(tmp_path: Path) -> None:
    shape = SweepShape(
        n_prompts=20, n_requests=20, rates_per_s=(6.0, 12.0), policies=POLICIES[3:7], synthetic=False
    )
    folder = write_sweep(tmp_path / "s", shape)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "simulated": False, "engine": "live"}))
    page = write_report(folder, resampling=QUICK).page.read_text(encoding="utf-8")
    assert "LIVE SERVERS" in page
    assert "SYNTHETIC" not in page
    assert "SIMULATED" not in page


def test_text_of_the_sweep_is_escaped(tmp_path: Path) -> None:
    policies = (*POLICIES[3:7], RoutedPolicy(router="always", dispatch="random", model=EVIL))
    shape = SweepShape(n_prompts=20, n_requests=20, rates_per_s=(6.0, 12.0), policies=policies[:4])
    evil = replace(shape, name=f"n{EVIL}")
    folder = write_sweep(tmp_path / "s", evil)
    path = folder / "manifest.json"
    text = path.read_text()
    relabelled = text.replace(json.dumps("passthrough/round-robin"), json.dumps(f"always:{EVIL}"))
    assert relabelled != text
    path.write_text(relabelled)
    page = write_report(folder, resampling=QUICK).page.read_text(encoding="utf-8")
    assert page.count("<script>") == 1
    assert "&lt;script&gt;alert(" in page
    assert "{{ 7*7 }}" in page
    assert EVIL in "".join(Parsed(page).text)


def test_the_same_sweep_gives_the_same_bytes(sweep_folder: Path, report: Report) -> None:
    def digests() -> dict[str, str]:
        files = sorted(path for path in report.page.parent.rglob("*") if path.is_file())
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    before = digests()
    assert len(before) > 15
    write_report(sweep_folder, resampling=QUICK)
    assert digests() == before


def test_figures_of_an_earlier_report_do_not_stay(report: Report, sweep_folder: Path) -> None:
    stale = report.page.parent / "figures" / "quality-latency-99.svg"
    stale.write_text("old")
    write_report(sweep_folder, resampling=QUICK)
    assert not stale.exists()


def test_a_report_that_can_not_be_written_leaves_earlier_figures(tmp_path: Path) -> None:
    shape = SweepShape(n_prompts=12, n_requests=12, rates_per_s=(6.0,), policies=POLICIES[4:6])
    folder = write_sweep(tmp_path / "s", shape)
    page = write_report(folder, resampling=QUICK).page
    earlier = page.parent / "figures" / "quality-latency-99.svg"
    earlier.write_text("old")
    page.unlink()
    page.mkdir()
    with pytest.raises(StoreError, match="can't be written"):
        write_report(folder, resampling=QUICK)
    assert earlier.read_text() == "old"


@pytest.mark.parametrize(
    "shape",
    [
        SweepShape(n_prompts=12, n_requests=12, rates_per_s=(6.0,), policies=POLICIES[:1]),
        SweepShape(n_prompts=12, n_requests=12, rates_per_s=(6.0,), policies=POLICIES[5:7], slo=False),
        SweepShape(n_prompts=1, n_requests=1, rates_per_s=(6.0, 8.0), policies=POLICIES[:2]),
        SweepShape(n_prompts=12, n_requests=12, rates_per_s=(6.0, 8.0), policies=POLICIES[4:6], failures=1.0),
        SweepShape(
            n_prompts=12, n_requests=12, rates_per_s=(6.0, 8.0), policies=POLICIES[4:7], unlabelled=1.0
        ),
        SweepShape(n_prompts=12, n_requests=12, policies=POLICIES[4:7], skip=frozenset({2, 5})),
    ],
    ids=["one-policy", "no-routebalance", "one-request", "all-failed", "no-labels", "no-baseline-cell"],
)
def test_meagre_sweeps_still_make_a_page(tmp_path: Path, shape: SweepShape) -> None:
    written = write_report(write_sweep(tmp_path / "s", shape), resampling=QUICK)
    page = written.page.read_text(encoding="utf-8")
    Parsed(page)
    assert "nan" not in re.sub(r"[A-Za-z]nan|nan[a-z]", "", "".join(Parsed(page).text)).lower().split()
    assert "Every rate in detail" in page
