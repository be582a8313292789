"""Routers in a bundle: trained into one that is there, kept apart from the heads' identity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rbx.errors import BundleError
from rbx.heads import bundle as bundle_module
from rbx.heads.bundle import Bundle
from rbx.heads.routers.head import AskedPrompts
from rbx.heads.routers.train import train_routers
from rbx.heads.train import TrainOptions, train_bundle
from tests.heads import pools
from tests.heads.conftest import HashEncoder


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bundle:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("rbx.heads.train.load_encoder", lambda name, progress: HashEncoder())
    monkeypatch.setattr(bundle_module, "load_encoder", lambda name: HashEncoder())
    return train_bundle(pools.view(), pools.pool(), TrainOptions(compare=False)).bundle


def test_routers_join_a_bundle_without_changing_what_it_is(bundle: Bundle, tmp_path: Path) -> None:
    names = ("linear", "avengers-pro")
    fuller, figures = train_routers(bundle, pools.view(), pools.pool(), names, seed=0)
    assert fuller.digest == bundle.digest
    assert [figure.router for figure in figures] == list(names)
    assert all(sum(figure.shares.values()) == pytest.approx(1.0) for figure in figures)
    fuller.save(tmp_path / "bundle")
    loaded = Bundle.load(tmp_path / "bundle")
    texts = pools.view().prompts[:5]
    asked = AskedPrompts(texts, HashEncoder().encode(texts), pools.view().sources[:5])
    for name in names:
        expected = fuller.router(name).score(asked)
        np.testing.assert_array_equal(loaded.router(name).score(asked), expected)
        assert loaded.router(name).models == loaded.models


def test_a_router_that_was_not_trained_says_how(bundle: Bundle) -> None:
    with pytest.raises(BundleError, match=r"--router mlp"):
        bundle.router("mlp")


def test_a_changed_router_file_is_refused_by_name(bundle: Bundle, tmp_path: Path) -> None:
    fuller, _ = train_routers(bundle, pools.view(), pools.pool(), ("linear",), seed=0)
    fuller.save(tmp_path / "bundle")
    path = tmp_path / "bundle" / "routers" / "linear.npz"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(BundleError, match=r"linear\.npz"):
        Bundle.load(tmp_path / "bundle")
