"""The files of the report on routers: complete, self-contained, escaped, labelled, the same every time."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rbx.report.routers.population import Material
from rbx.report.routers.run import RouterReport, write_router_report
from rbx.report.routers.study import StudyOptions
from tests.report.routers.conftest import QUICK
from tests.report.routers.made_up import bundle_of, material_of, view

EVIL = "<script>alert('x')</script>$[bold]{{ 7*7 }}"
_VOID = {"meta", "link", "br", "img", "hr", "input"}


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tables = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.ids += [named["id"] or ""] if "id" in named else []
        self.links += [value or "" for name, value in attrs if name in ("href", "xlink:href", "src")]
        self.tables += tag == "table"
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())


@pytest.fixture(scope="module")
def written(material: Material, tmp_path_factory: pytest.TempPathFactory) -> RouterReport:
    return write_router_report(material, tmp_path_factory.mktemp("report"), StudyOptions(0, QUICK))


def test_the_page_is_well_formed_and_asks_nothing_of_the_network(written: RouterReport) -> None:
    page = written.page.read_text(encoding="utf-8")
    parsed = _Page()
    parsed.feed(page)
    parsed.close()
    assert parsed.open == []
    assert parsed.tables == 14
    assert len(parsed.ids) == len(set(parsed.ids))
    assert parsed.links
    assert all(link.startswith("#") and link[1:] in parsed.ids for link in parsed.links)
    assert not re.search(r"url\((?!#)", page)


def test_made_up_labels_are_marked_on_every_table_and_figure(written: RouterReport) -> None:
    page = written.page.read_text(encoding="utf-8")
    captions = re.findall(r'<figure class="table">.*?</figcaption>', page, flags=re.DOTALL)
    assert len(captions) == 12
    assert all("SYNTHETIC GRID" in caption for caption in captions)
    figures = sorted((written.page.parent / "figures").glob("*.svg"))
    assert [path.stem for path in figures] == ["flips", "quality-cost-curves", "quality-gain", "reliability"]
    for path in figures:
        svg = path.read_text(encoding="utf-8")
        assert "SYNTHETIC GRID" in svg, path.name
        assert "test prompts" in svg, path.name
        assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_real_grids_carry_no_such_mark(material: Material, tmp_path: Path) -> None:
    real = dataclasses.replace(material, view=dataclasses.replace(material.view, synthetic=False))
    skip = frozenset({"flips", "held-out-sources", "label-noise"})
    page = write_router_report(real, tmp_path, StudyOptions(0, QUICK, skip)).page.read_text(encoding="utf-8")
    assert "SYNTHETIC" not in page
    assert "Left out, as asked: flips, held-out-sources, label-noise." in page


def test_tables_and_summary_hold_the_same_figures(written: RouterReport) -> None:
    out = written.page.parent
    summary = json.loads((out / "summary.json").read_text())
    assert summary == written.summary
    with (out / "tables" / "routed_quality.csv").open() as file:
        rows = {row["label"]: row for row in csv.DictReader(file)}
    assert len(rows) == len(summary["routed_quality"]) > 15
    for row in summary["routed_quality"]:
        assert float(rows[row["label"]]["quality"]) == pytest.approx(row["quality"]["value"])
        assert float(rows[row["label"]]["quality_low"]) == pytest.approx(row["quality"]["low"])
    with (out / "tables" / "shares.csv").open() as file:
        shares = [row for row in csv.DictReader(file) if row["label"] == "knn"]
    assert sum(float(row["share"]) for row in shares) == pytest.approx(1.0)
    names = {path.stem for path in (out / "tables").iterdir()}
    assert names == {
        "areas", "calibration", "concordance", "curves", "flips", "held_out_sources", "label_noise",
        "neighbours", "prices", "reliability", "routed_quality", "shares", "ties",
    }  # fmt: skip
    with (out / "tables" / "concordance.csv").open() as file:
        told = [(row["router"], row["model"]) for row in csv.DictReader(file)]
    models = ["mean over models", *summary["models"]]
    assert told == [(row["router"], model) for row in summary["concordance"] for model in models]
    with (out / "tables" / "ties.csv").open() as file:
        ties = {row["router"]: float(row["tied_share"]) for row in csv.DictReader(file)}
    assert ties == pytest.approx({row["router"]: row["tied"]["value"] for row in summary["concordance"]})


def test_the_same_bundle_gives_the_same_bytes_and_stale_files_go(
    written: RouterReport, material: Material
) -> None:
    out = written.page.parent

    def digests() -> dict[str, str]:
        files = sorted(path for path in out.rglob("*") if path.is_file())
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    before = digests()
    (out / "figures" / "old.svg").write_text("old")
    (out / "tables" / "old.csv").write_text("old")
    write_router_report(material, out, StudyOptions(0, QUICK))
    assert digests() == before


def test_text_of_grid_and_pool_is_escaped(tmp_path: Path) -> None:
    grid = dataclasses.replace(view(120, 3), name=f"n{EVIL}", sources=(EVIL,) * 60 + ("plain",) * 60)
    skip = frozenset({"flips", "label-noise"})
    material = material_of(grid, bundle_of(grid, "linear"))
    written = write_router_report(material, tmp_path, StudyOptions(0, QUICK, skip))
    page = written.page.read_text(encoding="utf-8")
    assert page.count("<script>") == 1
    assert "&lt;script&gt;alert(" in page
    assert "{{ 7*7 }}" in page
    for path in (tmp_path / "figures").glob("*.svg"):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
