"""Counted from exact snapshots, telemetry is what the engine itself tells."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.simulator import EngineSim
from rbx.engine.snapshot_counts import pool_telemetry
from rbx.engine.snapshot_export import export_snapshot
from rbx.engine.telemetry import PoolTelemetry
from tests.engine.scenes import random_tier


def assert_same(counted: PoolTelemetry, told: PoolTelemetry) -> None:
    for each in fields(PoolTelemetry):
        values, expected = getattr(counted, each.name), getattr(told, each.name)
        assert values.dtype == expected.dtype, each.name
        np.testing.assert_array_equal(values, expected, err_msg=each.name)


def compared(seed: int) -> NDArray[np.int64]:
    """Compare at 12 random moments of a random pool; requests seen running, waiting and in their prompt."""
    rng = np.random.default_rng(seed)
    tiers = [random_tier(rng, exact=False) for _ in range(3)]
    profiles = [InstanceProfile.of(each) for each in tiers]
    n = 60
    engine = EngineSim(tiers, n)
    instance = rng.integers(0, 3, n)
    room = np.array([each.limits.max_model_len for each in tiers])[instance]
    prompt = np.array([rng.integers(1, most) for most in room])
    output = np.array([rng.integers(1, most + 1) for most in room - prompt])
    engine.submit_many(instance, np.sort(rng.uniform(0.0, 2.0, n)), prompt, output, rng.integers(1, 400, n))
    seen = np.zeros(4, dtype=np.int64)
    for at_s in np.sort(rng.uniform(0.0, 4.0, 12)):
        engine.advance(float(at_s))
        told = engine.telemetry()
        snapshots = [export_snapshot(engine, i, profile) for i, profile in enumerate(profiles)]
        assert_same(pool_telemetry(snapshots, told.received), told)
        rows = np.concatenate([snapshot.requests for snapshot in snapshots])
        seen += [
            told.running.sum(),
            told.waiting.sum(),
            rows[:, snap.PREFILLING].sum(),
            rows[:, snap.PREEMPTIONS].sum(),
        ]
    return seen


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_snapshots_count_up_to_the_engines_own_telemetry(seed: int) -> None:
    compared(seed)


def test_the_comparison_meets_full_preempting_and_half_read_instances() -> None:
    assert np.sum([compared(seed) for seed in range(20)], axis=0).min() > 10


def test_stamps_may_be_given() -> None:
    tier = random_tier(np.random.default_rng(0), exact=False)
    snapshot = export_snapshot(EngineSim([tier], 1), 0, InstanceProfile.of(tier))
    counted = pool_telemetry([snapshot], np.array([7]), np.array([3.5]))
    assert counted.stamp_s == pytest.approx([3.5])
    assert counted.received.tolist() == [7]
