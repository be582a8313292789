"""The alarm rings when targets suddenly can't be met, once, and is silent about a steady share."""

from __future__ import annotations

import numpy as np

from rbx.policy.bear.alarm import InfeasibleAlarm


def rings(shares: list[tuple[int, float]], seed: int = 0) -> list[int]:
    """Decisions at which it rings, over stretches of (decisions, infeasible share)."""
    rng, alarm, at, count = np.random.default_rng(seed), InfeasibleAlarm(), [], 0
    for n, share in shares:
        for infeasible in rng.random(n) < share:
            if alarm.note(bool(infeasible)):
                at.append(count)
            count += 1
    return at


def test_a_jump_rings_once_and_a_second_jump_again() -> None:
    at = rings([(500, 0.0), (200, 0.9), (500, 0.0), (200, 0.9)])
    assert len(at) == 2
    assert 500 <= at[0] < 600
    assert 1200 <= at[1] < 1300


def test_a_router_that_never_finds_anything_feasible_rings_as_soon_as_it_can_tell() -> None:
    assert rings([(1000, 1.0)]) == [99]


def test_a_small_steady_share_is_no_alarm() -> None:
    assert rings([(5000, 0.1)]) == []


def test_it_counts_every_decision() -> None:
    alarm = InfeasibleAlarm()
    for k in range(250):
        alarm.note(k % 5 == 0)
    assert (alarm.decisions, alarm.infeasible, alarm.share) == (250, 50, 0.2)
