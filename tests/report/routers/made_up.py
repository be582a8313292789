"""A grid, a pool and a bundle with routers, small enough to train in seconds: four sources, three models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from rbx.config.pool import Pool
from rbx.grid.schema import GridView
from rbx.heads import bundle as bundle_module
from rbx.heads.bundle import Bundle
from rbx.heads.routers.train import train_routers
from rbx.heads.train import TrainOptions, train_bundle
from rbx.report.routers.population import Material, gather
from tests.heads import pools
from tests.heads.conftest import HashEncoder

ROUTERS = ("avengers-pro", "linear", "matrix-factorisation", "mlp")
_PRICES = {"large": 0.8, "tiny": 0.1, "extra": 0.3}


def pool() -> Pool:
    """Tiers of three models, the dearest first."""
    return pools.pool(
        *(
            pools.tier(
                f"{model}-a", model, 0.01, price_in_usd_per_mtok=price, price_out_usd_per_mtok=2 * price
            )
            for model, price in _PRICES.items()
        )
    )


def view(n: int = 240, seed: int = 0, *, graded: bool = False) -> GridView:
    """The heads' test grid with its topics as sources; graded labels have five levels."""
    found = pools.view(n, seed)
    score = found.score
    if graded:
        rng = np.random.default_rng(seed)
        score = np.clip(np.round(4 * (0.6 * score + 0.4 * rng.random(score.shape))) / 4, 0.0, 1.0)
    return replace(found, sources=tuple(text.partition(" ")[0] for text in found.prompts), score=score)


@contextmanager
def hash_encoder() -> Iterator[None]:
    """Bundles are made and loaded with an encoder that costs nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rbx.heads.train.load_encoder", lambda name, progress: HashEncoder())
        patch.setattr(bundle_module, "load_encoder", lambda name: HashEncoder())
        yield


def bundle_of(grid: GridView, *names: str) -> Bundle:
    """A bundle trained on the grid, with these routers; its encoder stays at hand."""
    with hash_encoder():
        bundle = train_bundle(grid, pool(), TrainOptions(compare=False)).bundle
        if names:
            bundle, _ = train_routers(bundle, grid, pool(), names, seed=0)
        assert bundle.encoder.dim == HashEncoder.dim
    return bundle


def material_of(grid: GridView, bundle: Bundle) -> Material:
    return gather(bundle, grid, pool())
