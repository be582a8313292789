"""The main job on a small grid: build, check, show, train, sweep, report."""

from __future__ import annotations

import json

from tests.workplace import N_CELLS, Workplace


def test_the_grid_passes_its_own_check_and_is_called_synthetic(workplace: Workplace) -> None:
    workplace.rbx("dataset", "check", "datasets/tiny")
    assert "synthetic" in workplace.rbx("dataset", "show", "datasets/tiny").stdout.lower()


def test_the_report_covers_every_cell_and_says_what_it_stands_on(
    workplace: Workplace, finished: dict[str, bytes]
) -> None:
    done = workplace.rbx("report", "results/whole", "--resamples", "500")
    assert "SYNTHETIC" in done.stdout.upper()
    assert "SIMULATED" in done.stdout.upper()
    folder = workplace.folder / "results/whole/report"
    page = (folder / "index.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert 'src="http' not in page
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["cells"] == {"reported": N_CELLS, "invalid": [], "missing": []}
    assert (folder / "cells.parquet").exists()
    figures = {path.suffix for path in (folder / "figures").iterdir()}
    assert figures == {".svg", ".png", ".pdf"}


def test_training_again_gives_the_same_heads(workplace: Workplace) -> None:
    from rbx.heads.bundle import Bundle
    from tests.workplace import ROOT

    pool = str(ROOT / "experiments/pools/paper.yaml")
    workplace.rbx("train", "datasets/tiny", "--pool", pool, "--out", "results/bundles/again", "--no-compare")
    first, again = (
        Bundle.load(workplace.folder / f"results/bundles/{name}").digest for name in ("tiny", "again")
    )
    assert first == again
