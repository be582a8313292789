"""A grid whose quality is called otherwise: train and sweep without a word about metrics fit each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rbx.config.base import Loaded, parse
from rbx.config.experiment import Experiment, Workload
from rbx.config.pool import load_pool
from rbx.errors import BundleError, DatasetError
from rbx.grid.harvest import Harvest
from rbx.grid.spec import SynthSource
from rbx.grid.store import open_view
from rbx.grid.synth.draw import draw_synthetic
from rbx.heads.bundle import Bundle
from rbx.heads.train import TrainOptions, train_bundle
from rbx.sweep.plan import make_plan
from rbx.sweep.prompts import usable_rows
from tests.grid.labelled import write
from tests.workplace import EXPERIMENT, ROOT

POOL = ROOT / "experiments/pools/paper.yaml"


def two_metrics(grid: Path) -> None:
    """A synthetic grid with ``grade``, which stands for quality, and ``exact``, all zeros."""
    drawn = draw_synthetic(SynthSource(kind="synth", preset="quickstart", n=300), lambda phase: None)
    n, at = drawn.labels.num_rows, drawn.labels.column_names.index("metric")
    grade = drawn.labels.set_column(at, drawn.labels.field(at), pa.array(["grade"] * n))
    exact = drawn.labels.set_column(at, drawn.labels.field(at), pa.array(["exact"] * n))
    score = exact.column_names.index("score")
    exact = exact.set_column(score, exact.field(score), pa.array([0.0] * n))
    labels = pa.concat_tables([grade, exact])
    write(Harvest(drawn.prompts, drawn.responses, labels, drawn.provenance, synthetic=True), grid)


def experiment(grid: Path, bundle: Path, **workload: Any) -> Loaded[Experiment]:
    data: dict[str, Any] = {**EXPERIMENT, "grid": str(grid), "bundle": str(bundle)}
    data["workload"] = data["workload"] | workload
    return Loaded(parse(Experiment, data, where="test"), Path("test.yaml"), {})


def test_the_default_metric_is_the_same_in_training_and_sweep(tmp_path: Path) -> None:
    two_metrics(tmp_path / "grid")
    view = open_view(tmp_path / "grid")
    trained = train_bundle(view, load_pool(POOL).value, TrainOptions(encoder="static", compare=False))
    trained.bundle.save(tmp_path / "bundle")
    assert Bundle.load(tmp_path / "bundle").meta.metric == "grade"
    plan = make_plan(experiment(tmp_path / "grid", tmp_path / "bundle"))
    assert plan.manifest["grid"]["metric"] == "grade"
    assert plan.context.prompts.score.max() > 0
    named = make_plan(experiment(tmp_path / "grid", tmp_path / "bundle", metric="grade"))
    assert [cell.cell_id for cell in named.cells] == [cell.cell_id for cell in plan.cells] != []
    with pytest.raises(BundleError, match="predicts metric 'grade', the experiment scores 'exact'"):
        make_plan(experiment(tmp_path / "grid", tmp_path / "bundle", metric="exact"))
    other = make_plan(experiment(tmp_path / "grid", tmp_path / "bundle", scored_by="exact"))
    assert other.manifest["grid"]["metric"] == "grade"
    assert other.manifest["grid"]["scored_by"] == "exact"
    assert (other.context.prompts.score == 0).all()
    assert (other.context.prompts.quality == plan.context.prompts.quality).all()
    assert not {cell.cell_id for cell in other.cells} & {cell.cell_id for cell in plan.cells}


def test_a_number_of_prompts_is_the_same_choice_for_every_seed(tmp_path: Path) -> None:
    two_metrics(tmp_path / "grid")
    view = open_view(tmp_path / "grid")
    few = parse(Workload, {"rates_per_s": [1.0], "n_prompts": 20, "seeds": [0, 1]}, where="test")
    rows = usable_rows(view, few, view.models)
    assert len(set(rows.tolist())) == 20
    assert set(rows.tolist()) < set(view.rows("test").tolist())
    assert rows.tolist() == usable_rows(view, few, view.models).tolist() == sorted(rows.tolist())
    many = few.model_copy(update={"n_prompts": 299})
    with pytest.raises(DatasetError, match="n_prompts asks for 299"):
        usable_rows(view, many, view.models)


def test_a_number_of_prompts_is_of_those_with_every_answer(tmp_path: Path) -> None:
    two_metrics(tmp_path / "grid")
    whole = open_view(tmp_path / "grid")
    test = whole.rows("test")
    output_tokens = whole.output_tokens.copy()
    output_tokens[test[::2], 0] = np.nan
    view = replace(whole, output_tokens=output_tokens)
    left = len(test) // 2
    all_left = parse(Workload, {"rates_per_s": [1.0], "n_prompts": left}, where="test")
    assert usable_rows(view, all_left, view.models).tolist() == test[1::2].tolist()
    with pytest.raises(DatasetError, match=f"has {left} with an answer from every model"):
        usable_rows(view, all_left.model_copy(update={"n_prompts": left + 1}), view.models)
