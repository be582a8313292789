"""The rate sweep: states from idle to overload, and a split that keeps held-out time unseen."""

from __future__ import annotations

import numpy as np
import pytest

from rbx.engine.telemetry import TPOT_FEATURES
from rbx.errors import BundleError
from rbx.heads.rate_sweep import (
    BLOCKS,
    HELD_OUT,
    LOADS,
    LengthPool,
    TierObservations,
    assign_roles,
    measure_capacity,
    sweep_tier,
)
from tests.heads import pools

TIER = pools.tier("tiny-b", "tiny", 0.01)


def lengths(n: int = 300) -> LengthPool:
    rng = np.random.default_rng(0)
    output = rng.integers(10, 200, n)
    return LengthPool(rng.integers(10, 100, n), output, np.maximum(1, output + rng.integers(-9, 9, n)))


@pytest.fixture(scope="module")
def observed() -> TierObservations:
    return sweep_tier(TIER, lengths(), seed=0)


def test_states_span_idle_to_overload(observed: TierObservations) -> None:
    running, waiting = observed.features[:, 0], observed.features[:, 1]
    assert running.min() == 0
    assert running.max() == TIER.limits.max_num_seqs
    assert waiting[observed.load <= 0.1].max() <= 1
    assert waiting[observed.load == 1.2].max() > 20
    assert set(observed.load) == set(LOADS)
    assert np.isfinite(observed.features).all()
    assert observed.features.shape == (len(observed.load), len(TPOT_FEATURES))


def test_a_lone_request_gets_the_step_time_of_a_batch_of_one(observed: TierObservations) -> None:
    alone = observed.tpot_s[(observed.load <= 0.02) & (observed.features[:, 0] == 0)]
    b0, b1, _, _ = TIER.step_time.seconds
    assert len(alone) > 100
    assert np.median(alone) == pytest.approx(b0 + b1, rel=0.05)
    assert observed.tpot_s.min() >= b0


def test_busier_states_give_slower_tokens(observed: TierObservations) -> None:
    by_load = [float(np.median(observed.tpot_s[observed.load == load])) for load in (0.02, 0.5, 0.9)]
    assert by_load == sorted(by_load)
    assert by_load[0] < 0.95 * by_load[2]


def test_capacity_is_the_rate_that_the_engine_can_just_carry(observed: TierObservations) -> None:
    pool = lengths(1500)
    capacity = measure_capacity(TIER, pool)
    limits, (b0, b1, _, _) = TIER.limits, TIER.step_time.seconds
    full_step_s = b0 + b1 * limits.max_num_seqs
    ceiling = limits.max_num_seqs / full_step_s / float(pool.output_tokens.mean())
    assert 0.5 * ceiling < capacity < ceiling


def test_the_same_seed_gives_the_same_observations(observed: TierObservations) -> None:
    again, other = sweep_tier(TIER, lengths(), seed=0), sweep_tier(TIER, lengths(), seed=1)
    np.testing.assert_array_equal(again.features, observed.features)
    np.testing.assert_array_equal(again.tpot_s, observed.tpot_s)
    assert not np.array_equal(other.tpot_s, observed.tpot_s)


def test_no_training_request_was_in_flight_during_held_out_time() -> None:
    rng = np.random.default_rng(0)
    at_s = np.sort(rng.random(2000)) * 100
    done_s = at_s + rng.exponential(3.0, 2000)
    role = assign_roles(at_s, done_s)
    edges = np.linspace(at_s[0], at_s[-1], BLOCKS + 1)
    for block in HELD_OUT:
        inside = (at_s < edges[block + 1]) & (done_s >= edges[block])
        assert not (inside & (role == 0)).any()
        submitted = (at_s >= edges[block]) & (at_s < edges[block + 1])
        assert (role[submitted] == 1).all()
    assert 0.1 < (role == 1).mean() < 0.25
    assert (role == 0).mean() > 0.6


def test_prompts_that_do_not_fit_are_left_out_and_answers_cut() -> None:
    prompt = np.array([1000, 2000, 50])
    sweep = sweep_tier(TIER, LengthPool(prompt, np.array([500, 10, 20]), np.array([400, 10, 20])), seed=0)
    assert set(sweep.output_tokens) == {24, 20}  # 1024 − 1000, and the one that fits whole
    with pytest.raises(BundleError, match="none of 1 training prompts fits"):
        sweep_tier(TIER, LengthPool(prompt[1:2], np.array([10]), np.array([10])), seed=0)
