"""Step times fitted to stamps are those of the servers, whatever the pool file says."""

from __future__ import annotations

import numpy as np
import pytest

from rbx.errors import UsageError
from rbx.sweep.compare.fitting import TierFit, fit_tiers
from rbx.sweep.compare.servers import Tiers, coefficients_b, fitted_servers, scaled_servers
from rbx.sweep.compare.time_blocks import divide
from tests.sweep.compare.conftest import FASTER
from tests.sweep.compare.live_scenes import Scene, play
from tests.sweep.scenes import small_pool


@pytest.fixture(scope="module")
def fits(scenes: tuple[Scene, ...]) -> tuple[TierFit, ...]:
    cells = [scene.cell for scene in scenes]
    pool = scenes[0].context.pool
    return fit_tiers(cells, pool, scaled_servers(pool, 1.0), divide(cells, 0, None), 0)


def test_each_tier_is_fitted_within_its_own_intervals(fits: tuple[TierFit, ...], servers: Tiers) -> None:
    assert [each.tier for each in fits] == ["small_gpu", "large_gpu"]
    truth = {tier.name: tier.step_time.seconds for tier in servers}
    for each in fits:
        assert each.report is not None
        assert each.aligned == each.answers > 200
        fit = each.report.model("A")
        assert fit.mape < 0.03
        wide = 0.0
        for coefficient, true in zip(fit.coefficients, truth[each.tier], strict=True):
            # Intervals of 95 %, eight coefficients: one may be missed by a little.
            slack = 0.5 * (coefficient.high - coefficient.low)
            assert coefficient.low - slack <= true <= coefficient.high + slack, coefficient.name
            wide = max(wide, coefficient.high - coefficient.low)
        assert wide > 0
        assert fit.coefficients[0].seconds == pytest.approx(truth[each.tier][0], rel=0.01)


def test_the_pool_file_is_shown_to_be_too_slow(fits: tuple[TierFit, ...]) -> None:
    for each in fits:
        assert each.believed_s / each.measured_s == pytest.approx(FASTER, rel=0.01)


def test_fitted_servers_price_steps_as_the_servers_do(fits: tuple[TierFit, ...], servers: Tiers) -> None:
    found = fitted_servers(small_pool(), {each.tier: each.fit for each in fits if each.fit}, 1.0)
    typical = np.array([1.0, 20.0, 6.0, 2_000.0, 400.0, 0.0])
    for ours, true in zip(found, servers, strict=True):
        price, wanted = (typical @ np.array(coefficients_b(tier)) for tier in (ours, true))
        assert price == pytest.approx(wanted, rel=0.01)


def test_servers_of_any_time_scale_are_found_from_stamps_coarser_than_their_steps() -> None:
    """Twenty times as fast: steps of half a millisecond to two, stamped a millisecond late on average."""
    fast = scaled_servers(small_pool(), 20.0)
    scenes = [play(fast, rate_per_s=400.0, seed=seed, jitter_s=0.001, n_requests=600) for seed in (0, 1, 2)]
    cells = [scene.cell for scene in scenes]
    pool = scenes[0].context.pool
    for each in fit_tiers(cells, pool, scaled_servers(pool, 20.0), divide(cells, 0, None), 0):
        assert each.windows < 0.2 * each.steps
        assert each.believed_s == pytest.approx(each.measured_s, rel=0.02)
        if each.fit is not None:
            assert each.fit.mape < 0.05


def test_too_little_is_refused_in_words() -> None:
    scene = play(n_requests=3)
    pool = scene.context.pool
    cells = [scene.cell]
    found = fit_tiers(cells, pool, scaled_servers(pool, 1.0), divide(cells, 0, None), 0)
    assert found
    for each in found:
        assert each.report is None
        assert each.fit is None
        assert "at least 300 are needed" in each.refused


def test_half_of_the_time_is_held_out_and_a_length_must_be_one(scenes: tuple[Scene, ...]) -> None:
    cells = [scene.cell for scene in scenes]
    blocks = divide(cells, 0, 5.0)
    assert blocks.held_out.mean() == pytest.approx(0.5, abs=0.02)
    assert not np.array_equal(blocks.held_out, divide(cells, 1, 5.0).held_out)
    judged = np.concatenate([blocks.judged(n, cell.dispatched_s) for n, cell in enumerate(cells)])
    assert 0.2 < judged.mean() < 0.8
    assert len(divide(cells, 0, None).held_out) >= 16
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="block_s"):
            divide(cells, 0, wrong)
