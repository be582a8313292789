"""The runtime of a deployment on what the watch sees: bursts spread, whatever telemetry shows of them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from rbx.config.endpoints import InstanceEndpoint
from rbx.config.experiment import Batching, SchedulerConfig
from rbx.config.gateway import Watch
from rbx.config.policy import BearPolicy, RoutedPolicy, SinglePolicy
from rbx.config.pool import Pool
from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile
from rbx.heads.bea.lengths import LengthRule
from rbx.heads.bea.unseen import UnseenRequests
from rbx.heads.lps import Traffic
from rbx.policy.build import build_policy
from rbx.policy.pool_state import PoolShape
from rbx.policy.ttft.build import LatencyModel
from rbx.scheduler.decision_cost import DecisionTimes
from rbx.scheduler.runtime import SchedulerRuntime
from rbx.serve.watch.pool_watch import PoolWatch
from rbx.serve.watch.sight import PoolSight
from tests.policy.algorithm1 import Ask
from tests.policy.scenes import table_of
from tests.policy.test_dispatch import NoTpot
from tests.serve.watch.pages import metrics, small_pool
from tests.serve.watch.targets import Target

INSTANCES, BURST, AT_S = 5, 64, 100.0
LIVE = DecisionTimes(0.0, 0.0, 0.0, 0.0, encode_max_tokens=256)  # a real clock passes by itself
SHORTEST_QUEUE = RoutedPolicy(router="passthrough", dispatch="shortest-queue")


def runtime_of(pool: Pool, policy: SinglePolicy) -> SchedulerRuntime:
    shape = PoolShape.of(pool)
    profiles = tuple(InstanceProfile.of(instance.tier) for instance in pool.instances)
    n = len(profiles)
    latency = LatencyModel(shape, profiles, (Traffic(100.0, 100.0),) * n, (LengthRule(),))
    asks = [Ask(20, 100, math.inf, [0.5], [50.0])] * BURST
    decider = build_policy(policy, pool.models, NoTpot(), latency, np.random.default_rng(0))
    scheduler = SchedulerConfig(batching=Batching(mode="fixed", max_size=4, window_s=0.0))
    return SchedulerRuntime(scheduler, decider, shape, table_of(asks), LIVE)


def watch_of(pool: Pool) -> PoolWatch:
    nowhere = [InstanceEndpoint(url="http://127.0.0.1:1/v1")] * len(pool.instances)
    return PoolWatch(pool, nowhere, Watch(), clock=lambda: AT_S)


def as_seen(sight: PoolSight) -> PoolSight:
    return sight


def burst(
    watch: PoolWatch,
    runtime: SchedulerRuntime,
    shown: Callable[[PoolSight], PoolSight] = as_seen,
    at_s: float = AT_S,
) -> NDArray[np.int64]:
    """All requests in one tick, in batches of four; how many each instance got."""
    for request in range(BURST):
        runtime.submit(request, at_s)
    counts = np.zeros(INSTANCES, dtype=np.int64)
    while (closes_s := runtime.closes_s()) < np.inf:
        batch = runtime.close(closes_s)
        sight = shown(watch.view(at_s))
        decision = runtime.decide(batch, sight.telemetry, at_s, sight.snapshots, sight.unseen)
        chosen = decision.assignment.instance.tolist()
        for request, i in zip(decision.requests.tolist(), chosen, strict=True):
            watch.dispatched(i, str(request), at_s, 20, 100, 50)
        counts += np.bincount(decision.assignment.instance, minlength=INSTANCES)
    return counts


@pytest.mark.parametrize("policy", [SHORTEST_QUEUE, BearPolicy(ttft="bea")], ids=["shortest-queue", "bear"])
def test_64_requests_in_one_tick_with_frozen_gauges_spread_evenly(policy: SinglePolicy) -> None:
    """No token, no scrape and no probe tells of any of them; what was sent is known all the same."""
    pool = small_pool(INSTANCES)
    counts = burst(watch_of(pool), runtime_of(pool, policy))
    fair = BURST / INSTANCES
    assert counts.sum() == BURST
    assert counts.max() - counts.min() <= 1
    assert abs(counts - fair).max() < 1.0


def test_others_at_an_instance_count_like_our_own() -> None:
    async def story() -> NDArray[np.int64]:
        pool = small_pool(INSTANCES)
        async with Target({"/metrics": metrics(4, 6, 0.3)}) as busy:
            nowhere = [InstanceEndpoint(url="http://127.0.0.1:1/v1")] * (INSTANCES - 1)
            watch = PoolWatch(pool, [busy.endpoint, *nowhere], Watch(period_s=60.0, max_age_s=120.0))
            await watch.start()
            counts = burst(watch, runtime_of(pool, SHORTEST_QUEUE), at_s=time.monotonic())
            await watch.stop()
        return counts

    counts = asyncio.run(story())
    load = counts + np.array([10, 0, 0, 0, 0])
    assert counts.sum() == BURST
    assert load.max() - load.min() <= 1


def test_a_state_that_shows_none_of_the_burst_yet_is_helped_by_what_is_unseen() -> None:
    """As with a published state that is older than every dispatch: the ladder names what it lacks."""
    pool = small_pool(INSTANCES)
    watch = watch_of(pool)
    old = watch.view(AT_S)

    def lagging(sight: PoolSight) -> PoolSight:
        rows = [snapshot.requests for snapshot in sight.snapshots]
        unseen = tuple(UnseenRequests(np.full(len(each), AT_S), each.copy()) for each in rows)
        return replace(old, unseen=unseen)

    counts = burst(watch, runtime_of(pool, SHORTEST_QUEUE), lagging)
    assert counts.max() - counts.min() <= 1


def test_received_counts_what_the_state_shows_or_has_outlived() -> None:
    pool = small_pool(2)
    watch = watch_of(pool)
    for k in range(3):
        watch.dispatched(0, str(k), AT_S, 20, 100, 50)
    watch.ended(0, "1", AT_S)
    watch.ended(1, "never sent", AT_S)
    sight = watch.view(AT_S)
    assert sight.telemetry.received.tolist() == [3, 0]
    assert sight.in_flight.tolist() == [2, 0]
    assert [len(each.requests) for each in sight.unseen] == [0, 0]
    assert sight.snapshots[0].requests[:, snap.PREDICTED].tolist() == [50, 50]
