"""An experiment's own prices: they change what answers cost and nothing of how the pool serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbx.config.pool import load_pool
from rbx.errors import ConfigError
from rbx.heads.bundle_meta import tier_identity
from rbx.sweep.priced_pool import priced_pool
from tests.sweep.scenes import experiment
from tests.workplace import ROOT

PAPER = str(ROOT / "experiments/pools/paper.yaml")
DEAR = {"72b-a100x4": {"in_usd_per_mtok": 1.5, "out_usd_per_mtok": 3.0}}


def test_named_tiers_are_priced_anew_and_the_others_keep_their_prices() -> None:
    before, after = load_pool(Path(PAPER)).value, priced_pool(experiment(pool=PAPER, prices=DEAR))
    large, others = after.tiers[0], after.tiers[1:]
    assert (large.price_in_usd_per_mtok, large.price_out_usd_per_mtok) == (1.5, 3.0)
    assert others == before.tiers[1:]
    assert [tier_identity(t) for t in after.tiers] == [tier_identity(t) for t in before.tiers]
    assert after.digest != before.digest


def test_without_prices_it_is_the_pool_of_the_file() -> None:
    assert priced_pool(experiment(pool=PAPER)).digest == load_pool(Path(PAPER)).value.digest


def test_a_tier_that_is_not_there_is_refused_by_name() -> None:
    free = {"none-such": {"in_usd_per_mtok": 0.0, "out_usd_per_mtok": 0.0}}
    with pytest.raises(ConfigError, match="none-such"):
        priced_pool(experiment(pool=PAPER, prices=free))
