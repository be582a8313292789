"""``rbx report --routers`` as typed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rbx.cli.main import run
from tests.workplace import ROOT, Workplace

POOL = str(ROOT / "experiments/pools/paper.yaml")


@pytest.fixture(scope="module")
def place(workplace: Workplace, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The small synthetic grid, and a bundle of it with two routers."""
    bundle = tmp_path_factory.mktemp("bundles") / "tiny"
    shutil.copytree(workplace.folder / "results/bundles/tiny", bundle)
    grid = str(workplace.folder / "datasets/tiny")
    routers = ["--router", "linear", "--router", "avengers-pro"]
    assert run(["train", grid, "--pool", POOL, "--out", str(bundle), *routers]) == 0
    return grid, str(bundle)


def test_a_report_on_routers_from_start_to_end(
    place: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, bundle = place
    out = tmp_path / "routers"
    command = ["report", "--routers", "--grid", grid, "--bundle", bundle, "--pool", POOL, "--out", str(out)]
    assert run([*command, "--resamples", "200", "--skip", "flips"]) == 0
    printed = capsys.readouterr().out
    assert "SYNTHETIC GRID" in printed
    assert "Best at what" in printed
    assert "What does not hold" in printed
    assert "Leave one source out" in printed
    assert printed.rstrip().endswith(str(out / "index.html"))
    assert "Left out, as asked: flips." in (out / "index.html").read_text(encoding="utf-8")

    assert run([*command, "--resamples", "200", "--skip", "flips", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary == json.loads((out / "summary.json").read_text())
    assert summary["synthetic_grid"] is True
    assert {row["router"] for row in summary["held_out_sources"]} >= {"linear", "knn"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--routers", "--grid", "g"], "--routers needs --bundle, --pool, --out"),
        (["--routers", "results/x"], "neither FOLDER"),
        (["--routers", "--executor", "ray"], "--executor goes with sweeps"),
        (["--grid", "g"], "go with --routers"),
        (["--seed", "3", "results/x"], "go with --routers"),
        ([], "--routers, --claims and --compare"),
    ],
)
def test_options_that_do_not_go_together_are_usage_errors(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_an_unknown_part_is_named(place: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    grid, bundle = place
    command = ["report", "--routers", "--grid", grid, "--bundle", bundle, "--pool", POOL, "--out", "x"]
    assert run([*command, "--skip", "everything"]) == 2
    assert "there are flips, held-out-sources, label-noise" in capsys.readouterr().err
