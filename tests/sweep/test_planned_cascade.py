"""A cascade from training to the cells of a plan, and read back by whoever runs them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rbx.config.experiment import load_experiment
from rbx.config.pool import load_pool
from rbx.errors import ConfigError, DatasetError
from rbx.grid.answers import Answers, read_answers
from rbx.grid.schema import GridView
from rbx.grid.store import open_view
from rbx.heads.bundle import Bundle
from rbx.heads.routers.cascade.router import Cascade
from rbx.heads.routers.train import train_routers
from rbx.sweep.loading import load_context
from rbx.sweep.plan import make_plan
from rbx.sweep.run import prepare
from rbx.sweep.store import SweepStore
from tests.workplace import EXPERIMENT, ROOT, Workplace

POOL = ROOT / "experiments/pools/paper.yaml"
WORDS = ("nonsense", "poor", "fair", "good", "excellent")


def said(view: GridView, models: tuple[str, ...]) -> Answers:
    """Answers that tell their label, since a synthetic grid has none."""
    columns = [view.models.index(model) for model in models]
    return tuple(
        tuple(f"This is {WORDS[round(4 * label)]} work, case {row}." for label in labels)
        for row, labels in enumerate(np.nan_to_num(view.score[:, columns]).tolist())
    )


@pytest.fixture
def taught(workplace: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the workplace whose bundle has a cascade; the grid's answers are those of ``said``."""
    folder = tmp_path / "place"
    for name in ("datasets/tiny", "results/bundles/tiny"):
        shutil.copytree(workplace.folder / name, folder / name)
    monkeypatch.chdir(folder)
    view, pool = open_view(Path("datasets/tiny")), load_pool(POOL).value
    bundle = Bundle.load(Path("results/bundles/tiny"))
    fuller, figures = train_routers(bundle, view, pool, ("cascade",), 0, answers=said(view, pool.models))
    assert figures[0].quality is not None
    fuller.save(Path("results/bundles/tiny"))
    monkeypatch.setattr("rbx.sweep.cascades.read_answers", lambda path, view, models: said(view, models))
    return folder


def experiment(folder: Path, **changes: Any) -> Any:
    policies = [{"kind": "cascade", "mean_budget_usd": [2e-5, 1e-4]}, {"kind": "passthrough"}]
    written = {**EXPERIMENT, "policies": policies, **changes}
    (folder / "cascade.yaml").write_text(yaml.safe_dump(written))
    return load_experiment(folder / "cascade.yaml")


def test_the_chain_and_the_answers_scores_are_those_of_the_bundle_wherever_the_cell_runs(
    taught: Path,
) -> None:
    plan = make_plan(experiment(taught))
    head = Bundle.load(taught / "results/bundles/tiny").router("cascade")
    assert isinstance(head, Cascade)
    view, rows = open_view(taught / "datasets/tiny"), open_view(taught / "datasets/tiny").rows("test")
    answers = said(view, plan.context.pool.models)
    scores = head.answer_scores([view.prompts[r] for r in rows], tuple(answers[r] for r in rows))
    for budget in ("2e-05", "0.0001"):
        label = f"cascade b${budget}"
        chain = head.within(float(budget)).planned
        assert plan.context.chains[label] == chain
        assert plan.manifest["cascades"][label]["asked"] == [head.models[m] for m in chain.models]
        np.testing.assert_array_equal(plan.context.prompts.router_score[label], scores)
    assert len(plan.context.chains["cascade b$0.0001"].models) > 1
    store = SweepStore(taught / "results/out")
    with store.locked():
        prepare(plan, store)
    back = load_context(store.folder)
    assert back.chains == plan.context.chains
    ids = [cell.cell_id for cell in plan.cells if "cascade" in cell.label]
    assert len(set(ids)) == len(ids) == 2 * 2 * 2


def test_an_answer_without_text_and_late_telemetry_are_refused(
    taught: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rbx.sweep.cascades.read_answers", read_answers)
    with pytest.raises(DatasetError, match="has no text of"):
        make_plan(experiment(taught))
    late = {"telemetry": {"delay_s": 0.1}}
    with pytest.raises(ConfigError, match="period_s"):
        make_plan(experiment(taught, scheduler=late))
