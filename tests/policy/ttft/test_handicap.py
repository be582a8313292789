"""Handicapped snapshots are snapshots: valid, and without what the handicap takes away."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.engine import snapshot_columns as snap
from rbx.heads.bea.prediction import Probe
from rbx.heads.bea.ttft import predict_ttft
from rbx.policy.ttft.handicap import Handicap
from tests.heads.bea_states import random_moment


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**31), true_lengths=st.booleans())
def test_without_its_batches_in_flight_a_snapshot_is_valid_and_frees_what_ended(
    seed: int, true_lengths: bool
) -> None:
    moment = random_moment(np.random.default_rng(seed), exact=False, true_lengths=true_lengths)
    before = moment.snapshot
    after = Handicap(in_flight=False).spoil(before)  # refuses itself if it can't be
    assert not after.stepping
    assert not after.ahead
    running: list[list[int]] = []
    waiting: list[list[int]] = []
    for k, row in enumerate(before.requests.tolist()):
        row[snap.GENERATED] += row[snap.YIELDS] + row[snap.YIELDS_AHEAD]
        # Who decodes and is left out of the batch ahead gets its last token from the running step.
        last = k < before.running and before.ahead and not row[snap.PREFILLING] and not row[snap.YIELDS_AHEAD]
        row[snap.YIELDS] = row[snap.YIELDS_AHEAD] = 0
        if not last and row[snap.GENERATED] < row[snap.CAP]:
            (running if k < before.running else waiting).append(row)
    assert after.requests[: after.running].tolist() == running
    assert after.requests[after.running :].tolist() == waiting
    held = after.requests[: after.running, snap.BLOCKS].sum() + after.free_blocks
    assert held == before.requests[: before.running, snap.BLOCKS].sum() + before.free_blocks
    assert predict_ttft(after, Probe(1)).seconds > 0.0


def test_what_has_landed_is_no_longer_waited_for() -> None:
    sooner = 0
    for seed in range(60):
        snapshot = random_moment(np.random.default_rng(seed), exact=False).snapshot
        landed = Handicap(in_flight=False).spoil(snapshot)
        if len(snapshot.steps) == 0:
            np.testing.assert_array_equal(landed.requests, snapshot.requests)
        else:
            sooner += predict_ttft(landed, Probe(1)).seconds < predict_ttft(snapshot, Probe(1)).seconds
    assert sooner > 30


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_scaled_step_times_scale_every_price(scale: float) -> None:
    snapshot = random_moment(np.random.default_rng(3), exact=False).snapshot
    spoiled = Handicap(step_time_scale=scale).spoil(snapshot)
    assert spoiled.profile.coefficients.as_b == pytest.approx(
        [scale * value for value in snapshot.profile.coefficients.as_b]
    )
    assert spoiled.profile.coefficients.fit_id != snapshot.profile.coefficients.fit_id
    assert Handicap().spoil(snapshot) is snapshot
