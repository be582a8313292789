"""Where a head is no better than the mean, the report says so in one line, and only there."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rich.console import Console

from rbx.cli.main import run
from rbx.heads.advice import REMEDY, advise
from rbx.heads.evaluation import Interval, ModelReport, RoutingReport
from rbx.heads.report_tables import report_tables
from rbx.heads.train import TrainOptions, train_bundle
from tests.heads import pools
from tests.heads.conftest import HashEncoder

GOOD_MODEL = ModelReport("m", 90, 0.5, 0.2, 0.3, 0.7, 90, 100.0, 30.0, 0.4, 0.02)
GOOD_ROUTING = RoutingReport(
    90, 0.5, 0.25, 40, 0.5, 0.25, None, "big", 0.6, 0.5, 0.8, Interval(0.05, 0.01, 0.09, 90)
)


def test_heads_that_explain_something_get_no_advice() -> None:
    assert advise([GOOD_MODEL, GOOD_MODEL], GOOD_ROUTING) == ()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"log_length_r2": -0.34}, f"length head of m is worse than its mean (R² −0.34): {REMEDY}"),
        ({"log_length_r2": 0.0}, f"length head of m is no better than its mean (R² +0.00): {REMEDY}"),
        ({"quality_auc": 0.5}, f"quality head of m ranks prompts no better than chance (AUC 0.50): {REMEDY}"),
        (
            {"quality_auc": None, "quality_spearman": -0.1},
            f"quality head of m ranks prompts no better than chance (Spearman −0.10): {REMEDY}",
        ),
        (
            {"quality_auc": 0.41, "quality_spearman": -0.1},
            f"quality head of m ranks prompts no better than chance (AUC 0.41, Spearman −0.10): {REMEDY}",
        ),
    ],
)
def test_a_head_that_explains_nothing_gets_one_line(change: dict[str, Any], line: str) -> None:
    assert advise([GOOD_MODEL, dataclasses.replace(GOOD_MODEL, **change)], GOOD_ROUTING) == (line,)


def test_what_can_not_be_estimated_gets_no_advice() -> None:
    unknown = dataclasses.replace(GOOD_MODEL, log_length_r2=None, quality_auc=None, quality_spearman=None)
    for gain in (None, Interval(-0.1, None, None, 1)):
        routing = dataclasses.replace(GOOD_ROUTING, routed_minus_best_single=gain)
        assert advise([unknown], routing) == ()


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (
            Interval(0.02, 0.0, 0.04, 90),
            "is not shown to be better than big alone (+0.020 [+0.000, +0.040] on 90",
        ),
        (
            Interval(-0.05, -0.08, -0.02, 90),
            "is worse than big alone (−0.050 [−0.080, −0.020] on 90 prompts)",
        ),
    ],
)
def test_routing_that_gains_nothing_gets_one_line(gain: Interval, said: str) -> None:
    (line,) = advise([GOOD_MODEL], dataclasses.replace(GOOD_ROUTING, routed_minus_best_single=gain))
    assert said in line


@pytest.fixture
def cheap_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rbx.heads.train.load_encoder", lambda name, progress: HashEncoder())


@pytest.mark.usefixtures("cheap_encoder")
def test_a_grid_of_noise_is_told_on_the_terminal_and_in_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    view = pools.view()
    rng = np.random.default_rng(1)
    noise = dataclasses.replace(
        view, output_tokens=np.floor(rng.lognormal(4.0, 1.0, (240, 3))) + 1, prompts=view.prompt_ids
    )
    monkeypatch.setattr("rbx.grid.store.open_view", lambda grid, metric: noise)
    pool = tmp_path / "pool.yaml"
    pool.write_text(yaml.safe_dump(pools.pool().model_dump(mode="json")))
    arguments = ["train", "grid", "--pool", str(pool), "--out", str(tmp_path / "bundle"), "--no-compare"]
    assert run([*arguments, "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    lengths = [note for note in notes if note.startswith("length head of ")]
    assert [note.split()[3] for note in lengths] == ["large", "tiny"]
    assert all("is worse than its mean (R² −" in note for note in lengths)
    assert run(arguments) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert all(f"note: {note}" in printed for note in notes)
    assert printed.index("Encoders on the same split") < printed.index("note: length head of large")


@pytest.mark.usefixtures("cheap_encoder")
def test_the_error_of_e2e_is_explained_by_the_lengths() -> None:
    report = train_bundle(pools.view(), pools.pool(), TrainOptions(compare=False)).report
    tiers = [
        dataclasses.replace(tier, e2e_mape=true, e2e_mape_predicted=told)
        for tier, true, told in zip(report.tiers, (0.2, 0.4), (0.9, 1.1), strict=True)
    ]
    console = Console(width=400, record=True, file=io.StringIO())
    for shown in (tiers, [dataclasses.replace(tier, e2e_mape=0.8) for tier in tiers]):
        for table in report_tables(dataclasses.replace(report, tiers=tuple(shown)), {"minilm": 1.0}):
            console.print(table)
    text = " ".join(console.export_text().split())
    assert "is dominated by their error: with the true lengths it is 30% instead of 100% on average" in text
    assert "includes their error: with the true lengths it is 80% instead of 100% on average" in text
