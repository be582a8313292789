"""Bundles: the same bytes twice, refused when altered or out of place, true to what was saved."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from rbx.config.pool import Pool
from rbx.errors import BundleError
from rbx.grid.schema import GridView
from rbx.heads import bundle as bundle_module
from rbx.heads.bundle import Bundle
from rbx.heads.train import TrainOptions, train_bundle
from tests.heads import pools
from tests.heads.conftest import HashEncoder


@pytest.fixture(scope="module")
def small_view() -> GridView:
    return pools.view()


@pytest.fixture(scope="module")
def small_pool() -> Pool:
    return pools.pool()


@pytest.fixture(scope="module")
def trained(small_view: GridView, small_pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("rbx.heads.train.load_encoder", lambda name, progress: HashEncoder())
        return train_bundle(small_view, small_pool, TrainOptions(compare=False)).bundle


@pytest.fixture
def saved(trained: Bundle, tmp_path: Path) -> Path:
    trained.save(tmp_path / "bundle")
    return tmp_path / "bundle"


def test_a_loaded_bundle_predicts_what_the_saved_one_did(
    trained: Bundle, saved: Path, small_view: GridView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_module, "load_encoder", lambda name: HashEncoder())
    loaded = Bundle.load(saved)
    assert loaded.models == ("large", "tiny")  # the pool's order, not the grid's
    assert loaded.digest == trained.digest
    assert loaded.report == trained.report
    predicted = loaded.predict(small_view.prompts[:9])
    live = loaded.knn.predict(loaded.encode(small_view.prompts[:9]))
    expected = trained.knn.predict(HashEncoder().encode(small_view.prompts[:9]))
    for array in ("quality", "length_tokens", "length_histogram"):
        np.testing.assert_array_equal(getattr(predicted, array), getattr(expected, array))
        np.testing.assert_array_equal(getattr(live, array), getattr(expected, array))
    features = np.array([[3.0, 0.0, 0.0, 200.0, 300.0, 0.02], [16.0, 5.0, 100.0, 900.0, 1500.0, 0.2]])
    tiers = np.array([0, 1])
    np.testing.assert_array_equal(loaded.tpot.predict(features, tiers), trained.tpot.predict(features, tiers))
    np.testing.assert_array_equal(loaded.prior.declared_s, [0.03, 0.01])


def test_survivors_and_reserves_are_those_of_the_training_prompts(
    trained: Bundle, saved: Path, small_view: GridView
) -> None:
    loaded = Bundle.load(saved)
    train = small_view.rows("train")
    left_out = trained.knn.predict_left_out(np.arange(len(train))).length_tokens
    assert len(loaded.survival) == len(loaded.reserve_tokens) == 2
    for at, model in enumerate(loaded.models):
        lengths = small_view.output_tokens[train, small_view.models.index(model)]
        for x in (0, 50, 100):
            # All prompts are of one length, so there is one bin.
            expected = np.ceil(np.median(lengths[lengths > x]))
            assert loaded.survival[at].medians[0, x] == expected == trained.survival[at].medians[0, x]
        short = [a - p for a, p in zip(lengths, left_out[:, at], strict=True) if a > p]
        assert len(short) > 20
        assert loaded.reserve_tokens[at] == np.ceil(np.median(short))
    assert loaded.meta.reserve_quantile == 0.5


def test_the_same_inputs_give_the_same_bytes(saved: Path, tmp_path: Path, trained: Bundle) -> None:
    Bundle.load(saved).save(tmp_path / "again")
    names = sorted(str(path.relative_to(saved)) for path in saved.rglob("*") if path.is_file())
    assert names == [
        "bundle.json", "knn.npz", "manifest.json", "report.json", "survival.npz",
        "tpot.npz", "tpot/large-a.ubj", "tpot/tiny-b.ubj",
    ]  # fmt: skip
    for name in names:
        assert (saved / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_boosters_on_disk_are_the_trees_that_serve(saved: Path) -> None:
    import xgboost

    loaded = Bundle.load(saved)
    features = np.random.default_rng(0).random((40, 6)) * [16, 8, 500, 2000, 4000, 1]
    for index, name in enumerate(loaded.tpot.tiers):
        booster = xgboost.Booster()
        booster.load_model(str(saved / "tpot" / f"{name}.ubj"))
        expected = np.maximum(
            booster.inplace_predict(features.astype(np.float32)), loaded.tpot.trees.floor[index]
        )
        answers = loaded.tpot.predict(features, np.full(40, index))
        np.testing.assert_allclose(answers, expected, atol=1e-6)
        assert np.ptp(answers) > 0


@pytest.mark.parametrize(
    "name", ["bundle.json", "knn.npz", "report.json", "survival.npz", "tpot.npz", "tpot/tiny-b.ubj"]
)
def test_a_changed_file_is_refused_by_name(saved: Path, name: str) -> None:
    data = bytearray((saved / name).read_bytes())
    data[len(data) // 2] ^= 1
    (saved / name).write_bytes(data)
    with pytest.raises(BundleError, match=f"{saved / name}: sha256"):
        Bundle.load(saved)


def test_an_older_bundle_is_replaced_and_anything_else_is_not(
    trained: Bundle, saved: Path, tmp_path: Path
) -> None:
    (saved / "left-over.txt").write_text("from the older bundle")
    trained.save(saved)
    assert not (saved / "left-over.txt").exists()
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "notes.txt").write_text("keep")
    with pytest.raises(BundleError, match="is not a bundle"):
        trained.save(precious)
    assert (precious / "notes.txt").read_text() == "keep"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_another_encoder_is_refused(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = HashEncoder()
    other.digest = "0" * 64
    monkeypatch.setattr(bundle_module, "load_encoder", lambda name: other)
    with pytest.raises(BundleError, match=r"trained with encoder minilm .*pip install"):
        Bundle.load(saved).encode(["text"])


def test_another_grid_or_metric_is_refused(trained: Bundle, small_view: GridView) -> None:
    trained.check_grid(small_view)
    with pytest.raises(BundleError, match="trained on grid topics"):
        trained.check_grid(dataclasses.replace(small_view, digest="cd" * 32))
    with pytest.raises(BundleError, match="predicts metric 'quality'"):
        trained.check_grid(dataclasses.replace(small_view, metric="rouge"))


def test_a_pool_that_serves_alike_is_accepted(trained: Bundle, small_pool: Pool) -> None:
    trained.check_pool(small_pool)
    cheaper = [
        t.model_copy(update={"instances": 7, "price_out_usd_per_mtok": 0.01}) for t in small_pool.tiers
    ]
    trained.check_pool(pools.pool(*cheaper))


@pytest.mark.parametrize("change", ["order", "fewer", "step time", "prior"])
def test_a_pool_that_serves_otherwise_is_refused(trained: Bundle, small_pool: Pool, change: str) -> None:
    large, tiny = small_pool.tiers
    changed = {
        "order": (tiny, large),
        "fewer": (large,),
        "step time": (large, pools.tier("tiny-b", "tiny", 0.02, tpot_prior_s=0.01)),
        "prior": (large, tiny.model_copy(update={"tpot_prior_s": 0.5})),
    }[change]
    with pytest.raises(BundleError, match="train a bundle for"):
        trained.check_pool(pools.pool(*changed))


def test_encoder_cost_is_a_constant(trained: Bundle) -> None:
    assert trained.encoder_cost() == trained.encoder_cost()
    assert trained.encoder_cost().encode_s_per_token > 0
