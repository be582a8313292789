"""The estimators of instances whose state can't be seen, against ``rbx.heads.lps`` called directly."""

from __future__ import annotations

import numpy as np
import pytest

from rbx.engine.instance_profile import InstanceProfile
from rbx.heads.lps import Traffic, engine_lps, lps_wait_s
from rbx.policy.pool_state import PoolState
from rbx.policy.speeds import Speeds
from rbx.policy.ttft.sharing import SharedEngine, SharedServer
from rbx.policy.view import PoolView, Served
from tests.engine.scenes import tier
from tests.policy.algorithm1 import Server
from tests.policy.scenes import state_of, telemetry_of

EVERY = np.ones(2, dtype=bool)


def servers(*running: int) -> list[Server]:
    return [Server(0, 0.0, 0.0, 64, 8192, running=r) for r in running]


def at(now_s: float) -> PoolView:
    return PoolView(now_s, now_s, 0.0, np.zeros(1), telemetry_of(servers(0, 0)))


def ended(instance: int, at_s: list[float]) -> Served:
    n, times = len(at_s), np.array(at_s)
    ones = np.ones(n, dtype=np.int64)
    return Served(np.arange(n), instance * ones, ones, ones, times, times, times)


def speeds() -> Speeds:
    return Speeds(np.array([1000.0, 500.0]), np.ones(2), np.array([8.0, 2.0]), np.ones(2))


def test_the_server_form_is_the_papers_with_measured_rates() -> None:
    theta, state = np.array([1000.0, 500.0]), state_of(servers(3, 0))
    estimator = SharedServer(speeds(), theta)
    estimator.look(at(0.0), state)
    assert estimator.ttft_s(250, EVERY, state) == pytest.approx([0.25, 0.5])  # nothing sent: no wait
    for second in range(60):
        estimator.look(at(float(second)), state)
        for _ in range(4):
            estimator.book(0, 100, 10, 5.0)
        estimator.book(1, 100, 10, 5.0)
    estimator.look(at(60.0), state)
    sent = 4.0 * (1 - 0.8**60), 1.0 * (1 - 0.8**60)
    wait_s = lps_wait_s(sent[0], 8.0, 3), lps_wait_s(sent[1], 2.0, 1)  # an idle one counts as k = 1
    assert estimator.ttft_s(250, EVERY, state) == pytest.approx([wait_s[0] + 0.25, wait_s[1] + 0.5])
    # Completions take over from the prior once there are 16, and too few of them cap the estimate.
    estimator.learn(ended(0, [60.0 + k / 10 for k in range(15)]))
    estimator.look(at(63.0), state)
    before = estimator.ttft_s(250, EVERY, state)[0]
    estimator.learn(ended(0, [63.0]))
    estimator.look(at(100.0), state)
    for _ in range(100):
        estimator.book(0, 100, 10, 5.0)
    estimator.look(at(101.0), state)
    assert before < 1.0
    assert estimator.ttft_s(250, EVERY, state)[0] == pytest.approx(60.25)


def profiles() -> tuple[InstanceProfile, InstanceProfile]:
    fast, slow = tier(), tier()
    return InstanceProfile.of(fast), InstanceProfile.of(slow)


def test_the_engine_form_is_the_birth_death_estimate_at_the_measured_rate() -> None:
    traffic = Traffic(40.0, 10.0), Traffic(40.0, 20.0)
    estimator = SharedEngine(profiles(), traffic)
    state = PoolState.idle(2)
    for second in range(30):
        estimator.look(at(float(second)), state)
        estimator.book(0, 40, 10, 5.0)
    estimator.look(at(30.0), state)
    rates = 1.0 - 0.8**30, 1e-3
    expected = [
        engine_lps(profile, seen, rate, 60.0).ttft_s
        for profile, seen, rate in zip(profiles(), traffic, rates, strict=True)
    ]
    got = estimator.ttft_s(40, EVERY, state)
    assert got == pytest.approx(expected)
    got[:] = 0.0  # the caller's own copy
    estimator.look(at(30.5), state)  # the same window: nothing moves
    assert estimator.ttft_s(9999, EVERY, state) == pytest.approx(expected)
