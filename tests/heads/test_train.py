"""Training as a whole: what the report says of a grid whose answers are known, and what is refused."""

from __future__ import annotations

import dataclasses
import io
import json

import numpy as np
import pytest
from rich.console import Console

from rbx.errors import BundleError, DatasetError
from rbx.heads.report_tables import report_tables
from rbx.heads.train import Trained, TrainOptions, reduce_to_pool, train_bundle
from tests.heads import pools
from tests.heads.conftest import HashEncoder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    def encoder(name: str, progress: object) -> HashEncoder:
        made = HashEncoder()
        made.name, made.digest = name, name.encode().hex().ljust(64, "0")
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("rbx.heads.train.load_encoder", encoder)
        return train_bundle(pools.view(), pools.pool(), TrainOptions(k=200, seed=0))


def test_topics_that_decide_quality_are_found(trained: Trained) -> None:
    report = trained.report
    assert [model.model for model in report.models] == ["large", "tiny"]
    assert report.n_train + report.n_test == 240
    assert 0.95 < report.label_coverage < 1.0
    for model in report.models:
        assert model.quality_auc is not None
        assert model.quality_auc > 0.6
        assert model.log_length_r2 is not None
        assert model.log_length_r2 > 0.6
    routing = report.routing
    assert routing.routed is not None
    assert routing.best_single is not None
    assert routing.random is not None
    assert routing.oracle is not None
    assert routing.random < routing.best_single < routing.routed.mean <= routing.oracle
    assert routing.picks_best is not None
    assert routing.picks_best_random is not None
    assert routing.picks_best > routing.picks_best_random


def test_k_beyond_the_training_prompts_is_said(trained: Trained) -> None:
    assert trained.report.k == trained.report.n_train == trained.bundle.knn.k
    assert trained.report.notes[0] == f"k = 200 was cut to the {trained.report.n_train} training prompts"


def test_an_encoder_that_is_not_available_leaves_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def encoder(name: str, progress: object) -> HashEncoder:
        if name == "static":
            raise BundleError("the MiniLM weights are not installed")
        return HashEncoder()

    monkeypatch.setattr("rbx.heads.train.load_encoder", encoder)
    report = train_bundle(pools.view(), pools.pool(), TrainOptions()).report
    assert [item.name for item in report.encoders] == ["minilm"]
    assert report.notes[0] == (
        "encoder static is left out of the comparison: the MiniLM weights are not installed"
    )


def test_encoders_are_compared_on_the_same_prompts(trained: Trained) -> None:
    chosen, other = trained.report.encoders
    assert (chosen.name, other.name) == ("minilm", "static")
    assert chosen.routed_minus_chosen is None
    assert other.routed_minus_chosen is not None
    assert other.routed_minus_chosen.mean == 0.0  # the stand-ins give the same vectors
    assert set(trained.encode_alone_ms) == {"minilm", "static"}


def test_the_report_tells_how_far_off_remaining_lengths_are(trained: Trained) -> None:
    lengths = pools.view().output_tokens[pools.view().rows("test"), 1]
    large = trained.report.remaining[0]
    assert (large.model, large.n) == ("large", int((~np.isnan(lengths)).sum()))
    assert [error.progress for error in large.errors] == [0.0, 0.25, 0.5, 0.75]
    for error in large.errors:
        assert 0 < error.survivors_tokens < np.nanmedian(lengths)
    assert large.reserve_tokens == trained.bundle.reserve_tokens[0] > 0


def test_the_report_holds_no_time_of_this_machine(trained: Trained) -> None:
    text = json.dumps(trained.bundle.report, allow_nan=False)
    assert "encode_alone" not in text
    assert trained.bundle.report == json.loads(json.dumps(trained.report.as_json()))


def test_statistics_count_only_known_labels(trained: Trained) -> None:
    view = pools.view()
    large, tiny = trained.bundle.meta.statistics
    train = view.rows("train")
    assert tiny.n_scores == len(train) - (3 in train)
    assert large.n_lengths == len(train) - (5 in train)
    assert tiny.mean_score == pytest.approx(np.nanmean(view.score[train, 0]))


def test_every_figure_reaches_the_tables(trained: Trained) -> None:
    console = Console(width=240, record=True, file=io.StringIO())
    for table in report_tables(trained.report, trained.encode_alone_ms):
        console.print(table)
    text = console.export_text()
    assert "synthetic data" in text
    assert "simulated engine" in text
    for word in (
        "large-a",
        "tiny-b",
        "static",
        "survivors",
        "prediction + ",
        f"{trained.report.tiers[0].tpot_mae_ms:.2f}",
    ):
        assert word in text


def test_a_grid_that_lacks_a_model_of_the_pool_is_refused() -> None:
    pool = pools.pool(pools.tier("huge-c", "huge", 0.05))
    with pytest.raises(DatasetError, match="no labels for huge of pool small; it has tiny, large, extra"):
        reduce_to_pool(pools.view(), pool)


@pytest.mark.parametrize(("is_train", "split"), [(True, "test"), (False, "train")])
def test_a_grid_without_a_split_is_refused(is_train: bool, split: str) -> None:
    view = dataclasses.replace(pools.view(), is_train=np.full(240, is_train))
    with pytest.raises(DatasetError, match=f"has no {split} prompts"):
        reduce_to_pool(view, pools.pool())
