"""A bundle for the gateway's tests."""

from __future__ import annotations

import pytest

from rbx.heads.bundle import Bundle
from rbx.heads.train import TrainOptions, train_bundle
from tests.heads import pools
from tests.heads.conftest import HashEncoder
from tests.serve.gateway.serving import small_pool


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """Heads of the small pool; its encoder costs nothing and may be replaced in ``vars(bundle)``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("rbx.heads.train.load_encoder", lambda name, progress: HashEncoder())
        trained = train_bundle(pools.view(), small_pool(), TrainOptions(compare=False)).bundle
    vars(trained)["encoder"] = HashEncoder()
    trained.knn.predict(trained.encode(["one alone"]))  # compiled now, not within a request's time to encode
    return trained
