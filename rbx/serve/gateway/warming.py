"""A first decision that nobody waits for: kernels are compiled before requests come."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rbx.heads.bea.unseen import UnseenRequests, waiting_row
from rbx.scheduler.runtime import SchedulerRuntime
from rbx.serve.gateway.restricted import RestrictedPolicy
from rbx.serve.gateway.version import NO_TIME, Surroundings, Version, live_table, shortest_queue
from rbx.serve.watch.sight import PoolSight


def warm(version: Version, around: Surroundings, sight: PoolSight) -> None:
    """Decide twice on ``sight``, by the policy and by its fallback, with objects that are then thrown away.

    Takes seconds where nothing was ever compiled; call it off the loop.
    """
    n = len(around.pool.instances)
    row = waiting_row(16, 16, 16.0)[None, :]
    unseen = tuple(UnseenRequests(np.array([sight.now_s]), row) for _ in range(n))
    told = replace(sight, unseen=unseen, ready=np.ones(n, dtype=np.bool_))
    for degraded in (False, True):
        live = live_table(2, around.pool)
        policy = RestrictedPolicy(version.fresh_policy(), shortest_queue(around, version.shape), live)
        policy.degraded = degraded
        runtime = SchedulerRuntime(version.config.scheduler, policy, version.shape, live.columns, NO_TIME)
        for text in ("one", "two"):
            runtime.submit(live.take(text, 16, 16, 1.0, 1.0), told.now_s)
        runtime.decide(runtime.close(told.now_s), told.telemetry, told.now_s, told.snapshots, told.unseen)
