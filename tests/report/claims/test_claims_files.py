"""The files of a claims report: complete, escaped, labelled, the same every time, sound in a browser."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from rbx.cli.main import run
from rbx.report.claims.run import write_claims
from rbx.report.claims.study import ClaimsStudy
from rbx.report.claims.tables import artefact_tables, our_value
from rbx.report.keeping_up import OVERLOADED_MARK, UNTOLD_MARK
from rbx.report.measured.site import SitePoint
from tests.report.browser import Parsed, rendered
from tests.report.claims.claimed import QUALITY, QUEUE, RANDOM, UNIFORM, at, best, judged, study
from tests.report.sweeps import POLICIES, SweepShape, write_sweep

EVIL = r"<script>alert('x')</script> \input{x} a_b & 5% | {{ 7*7 }}"
SHAPE = SweepShape(policies=(*POLICIES[:2], *POLICIES[6:8]), rates_per_s=(6.0,), n_prompts=40, n_requests=40)
CLAIMS: list[dict[str, Any]] = [
    {
        "kind": "value",
        "metric": "mean_e2e_s",
        "of": at(UNIFORM),
        "published": 2.0,
        "published_interval": [1.9, 2.1],
        "where": "Figure 2a, 6 req/s",
        "says": EVIL,
    },
    {
        "kind": "value",
        "metric": "cost_per_request_usd",
        "of": best("*"),
        "published": 1e-9,
        "remark": EVIL,
    },
    {
        "kind": "value",
        "metric": "quality",
        "of": at(QUEUE),
        "published": 0.4,
        "role": "calibrated",
        "why": f"fitted {EVIL}",
    },
    {
        "kind": "difference",
        "metric": "quality",
        "of": at(QUALITY),
        "minus": at(QUEUE),
        "published": 0.1,
        "published_interval": [0.05, 0.15],
    },
    {"kind": "ratio", "metric": "p99_e2e_s", "of": at(UNIFORM), "over": at(QUEUE), "published": 0.8},
    {"kind": "order", "metric": "quality", "points": [at(QUALITY), at(UNIFORM), at(RANDOM)]},
    {"kind": "sign", "metric": "mean_e2e_s", "of": at(UNIFORM), "minus": at(QUEUE), "published": "<"},
    {"kind": "bound", "metric": "completed_share", "of": at(UNIFORM), "at_least": 0.9},
    {"kind": "bound", "metric": "quality", "of": at(UNIFORM), "minus": at(QUEUE), "at_most": 0.5},
    {"kind": "value", "metric": "quality", "of": at(EVIL), "published": 0.4, "remark": "never shown"},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sweep(tmp_path_factory.mktemp("results") / "s", SHAPE)


@pytest.fixture(scope="module")
def found(folder: Path) -> ClaimsStudy:
    return study(CLAIMS, s=folder)


@pytest.fixture(scope="module")
def out(found: ClaimsStudy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_claims(found, tmp_path_factory.mktemp("claims")).page.parent


def test_every_claim_stands_in_every_file(out: Path) -> None:
    rows = list(csv.DictReader(io.StringIO((out / "claims.csv").read_text(encoding="utf-8"))))
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    ids = [f"c{number}" for number in range(len(CLAIMS))]
    assert [row["id"] for row in rows] == [claim["id"] for claim in summary["claims"]] == ids
    for name in ("index.html", "claims.md", "claims.tex"):
        text = (out / name).read_text(encoding="utf-8")
        assert all(re.search(rf"\b{each}\b", text) for each in ids), name
    assert rows[-1]["verdict"] == "not run"
    assert summary["complete"] is False
    assert [claim["verdict"] for claim in summary["claims"]] == [row["verdict"] for row in rows]
    for row, claim in zip(rows, summary["claims"], strict=True):
        assert row["ours"] == ("" if claim["ours"] is None else str(claim["ours"]))
    assert {path.name for path in (out / "figures").iterdir()} == {
        f"{stem}.{kind}" for stem in ("published-ours", "differences") for kind in ("svg", "png", "pdf")
    }


def test_the_page_is_self_contained_escaped_and_sound_in_a_browser(out: Path, tmp_path: Path) -> None:
    page = (out / "index.html").read_text(encoding="utf-8")
    parsed = Parsed(page)
    parsed.assert_self_contained()
    assert page.count("<script>") == 1
    text = "".join(parsed.text)
    assert EVIL in text
    assert "never shown" not in text  # a remark belongs to a claim that does not hold
    dom = rendered(out / "index.html", tmp_path)
    # The tally, and one table for each artefact.
    assert dom.count('<table class="sortable">') == 1 + 2
    assert dom.count("does not hold") >= 1


def test_markdown_and_latex_hold_names_as_text(out: Path) -> None:
    markdown = (out / "claims.md").read_text(encoding="utf-8")
    assert r"\<script\>alert('x')\</script\>" in markdown
    assert "<script>" not in markdown
    latex = (out / "claims.tex").read_text(encoding="utf-8")
    assert r"\textbackslash{}input\{x\} a\_b \& 5\% \textbar{} \{\{ 7*7 \}\}" in latex
    assert not re.search(r"(?<!\\)\\input", latex)
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 3


def test_what_served_the_requests_stands_on_every_table_and_figure(out: Path) -> None:
    page = (out / "index.html").read_text(encoding="utf-8")
    tables = re.findall(r'<figure class="table">.*?</figcaption>', page, flags=re.DOTALL)
    assert len(tables) == 3
    assert all("SYNTHETIC GRID · SIMULATED ENGINE" in table for table in tables)
    figures = list((out / "figures").glob("*.svg"))
    assert all("SYNTHETIC GRID · SIMULATED ENGINE" in path.read_text(encoding="utf-8") for path in figures)
    assert (out / "claims.tex").read_text(encoding="utf-8").count("SYNTHETIC GRID $\\cdot$ SIMULATED") == 3


def test_the_same_study_gives_the_same_bytes(out: Path, found: ClaimsStudy, tmp_path: Path) -> None:
    again = write_claims(found, tmp_path / "again").page.parent

    def digests(folder: Path) -> dict[str, str]:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return {
            str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
        }

    assert digests(again) == digests(out)
    assert len(digests(out)) == 5 + 6


def _file(tmp_path: Path, folder: Path, claims: list[dict[str, Any]]) -> Path:
    filled = [{"id": f"c{k}", "where": "Table 1", "says": "so", **claim} for k, claim in enumerate(claims)]
    path = tmp_path / "claims.yaml"
    content = {"name": "made-up", "source": "nobody", "sweeps": {"s": str(folder)}, "claims": filled}
    path.write_text(yaml.safe_dump(content))
    return path


def test_the_command_exits_with_3_where_something_was_not_run(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["report", "--out", str(out), "--resamples", "100", "--claims"]
    assert run([*command, str(_file(tmp_path, folder, CLAIMS))]) == 3
    shown = capsys.readouterr().out
    assert "Of 9 predicted claims" in shown
    assert "Of 1 calibrated claim" in shown
    assert "has no policy" in shown
    assert "SYNTHETIC GRID · SIMULATED ENGINE" in shown
    assert shown.rstrip().endswith(str(out / "index.html"))
    assert run([*command, str(_file(tmp_path, folder, CLAIMS[3:5]))]) == 0
    capsys.readouterr()
    assert run([*command, str(_file(tmp_path, folder, CLAIMS[3:5])), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((out / "summary.json").read_text())


def test_mistakes_in_a_claims_file_end_the_command(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _file(tmp_path, folder, [{**CLAIMS[4], "metric": "speed"}])
    assert run(["report", "--claims", str(path), "--out", str(tmp_path / "out")]) == 1
    assert f"{path}: c0: metric 'speed' is none of" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert run(["report", "--claims", str(tmp_path / "none.yaml")]) == 1
    assert run(["report", str(folder), "--claims", str(path)]) == 2
    assert run(["report", str(folder), "--out", str(tmp_path)]) == 2


def test_a_file_of_sweeps_that_are_not_there_still_makes_a_page(tmp_path: Path) -> None:
    path = _file(tmp_path, tmp_path / "nowhere", CLAIMS[:1])
    assert run(["report", "--claims", str(path), "--out", str(tmp_path / "out"), "--resamples", "100"]) == 3
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    Parsed(page).assert_self_contained()
    assert "is not there" in page


def test_a_table_says_what_it_rests_on_where_sweeps_are_of_two_kinds(folder: Path, tmp_path: Path) -> None:
    """A real grid beside a synthetic one: the page is marked with both, each table says which is its own."""
    real = write_sweep(tmp_path / "t", replace(SHAPE, synthetic=False))
    claims: list[dict[str, Any]] = [
        {"kind": "value", "metric": "quality", "of": at(UNIFORM), "published": 0.4, "where": "Table 1"},
        {
            "kind": "value",
            "metric": "quality",
            "of": at(UNIFORM, sweep="t"),
            "published": 0.4,
            "where": "Table 2",
        },
        {
            "kind": "order",
            "metric": "quality",
            "points": [at(UNIFORM), at(UNIFORM, sweep="t")],
            "where": "Table 3",
        },
    ]
    both = study(claims, s=folder, t=real)
    assert both.kinds == ("SYNTHETIC GRID", "SIMULATED ENGINE")
    notes = [table.note for table in artefact_tables(both)]
    assert "rests on SIMULATED ENGINE alone" in notes[1]
    assert (notes[0], notes[2]) == ("", "")
    says = list(artefact_tables(both))[2].rows[0][1]
    assert f"best first: s: {UNIFORM} at 6 req/s; t: {UNIFORM} at 6 req/s" in says.sub


@pytest.mark.parametrize(
    ("claim", "flag"),
    [
        ({"kind": "order", "metric": "mean_e2e_s", "points": [at(UNIFORM), at(QUEUE)]}, OVERLOADED_MARK),
        ({"kind": "order", "metric": "quality", "points": [at(UNIFORM), at(QUEUE)]}, ""),
        ({"kind": "value", "metric": "mean_e2e_s", "of": at(UNIFORM), "published": 2.0}, OVERLOADED_MARK),
        ({"kind": "value", "metric": "on_time_utility", "of": at(UNIFORM), "published": 2.0}, ""),
    ],
)
def test_what_grows_with_the_run_is_marked_where_a_policy_falls_behind(
    folder: Path, claim: dict[str, Any], flag: str
) -> None:
    (found,) = judged([claim], s=folder)
    behind = tuple(
        replace(each, point=replace(each.point, sustained=(False,)))
        for each in found.points
        if isinstance(each, SitePoint)
    )
    upright = tuple(replace(each, point=replace(each.point, sustained=(True,))) for each in behind)
    assert our_value(replace(found, points=upright)).flag == ""
    assert our_value(found).flag == (UNTOLD_MARK if flag else "")  # too few requests to tell
    assert our_value(replace(found, points=behind)).flag == flag


def test_a_figure_that_is_not_known_is_nothing_to_sort_by(folder: Path) -> None:
    claim = {"kind": "value", "metric": "on_time_utility", "of": at(UNIFORM), "published": 2.0}
    (found,) = judged([claim], s=folder)
    assert (our_value(found).text, our_value(found).sort) == ("–", None)
