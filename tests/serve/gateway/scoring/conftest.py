"""A bundle on disk with trained routers and a real encoder: a sidecar reads it in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbx.heads.bundle import Bundle
from rbx.heads.routers.train import train_routers
from rbx.heads.train import TrainOptions, train_bundle
from tests.heads import pools
from tests.serve.gateway.serving import small_pool


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """MiniLM, ``avengers-pro`` and ``linear``, of the small pool."""
    folder = tmp_path_factory.mktemp("stored")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        heads = train_bundle(pools.view(), small_pool(), TrainOptions(compare=False)).bundle
        routed = train_routers(heads, pools.view(), small_pool(), ("avengers-pro", "linear"), seed=0)[0]
    routed.save(folder / "bundle")
    return Bundle.load(folder / "bundle")


@pytest.fixture
def bundle_folder(stored: Bundle) -> Path:
    assert stored.folder is not None
    return stored.folder
