"""Random moments of a simulated instance, with what its snapshot then predicts and what then happens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from rbx.config.pool import Tier
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.simulator import EngineSim
from rbx.engine.snapshot_export import export_snapshot
from rbx.heads.bea.unseen import UnseenRequests
from tests.engine.scenes import GRID_S, priced_by, random_tier, random_workload

HISTORY, UNSEEN = 40, 4


@dataclass(frozen=True)
class Moment:
    """A snapshot, what was dispatched after it, and the engine at ``now_s``, to which a probe may go."""

    engine: EngineSim
    snapshot: InstanceSnapshot
    unseen: UnseenRequests
    now_s: float
    max_prompt: int


def random_moment(
    rng: Generator, *, exact: bool, true_lengths: bool = True, feature_set: str | None = None
) -> Moment:
    """Some requests, a stop in the middle of serving them, a few dispatches after it, then now."""
    server = tight_tier(rng, exact=exact) if rng.random() < 0.4 else random_tier(rng, exact=exact)
    if feature_set:
        server = priced_by(server, feature_set, rng, exact=exact)
    n = int(rng.integers(1, HISTORY))
    past = random_workload(rng, [server], n + UNSEEN, exact=exact)
    engine = EngineSim([server], n + UNSEEN + 1)
    engine.submit_many(*past.rows(np.arange(n)))
    whole = EngineSim([server], n)
    whole.submit_many(*past.rows(np.arange(n)))
    whole.drain()
    stamp_s = moment(rng, 0.0, whole.clock_s, exact)
    if rng.random() < 0.3:  # when a step ends, and nothing runs
        stamp_s = float(rng.choice(np.concatenate([whole.first_token_s, whole.done_s])))
    if (past.at_s[:n] > stamp_s).any():  # nobody else may arrive after the stamp
        kept = np.flatnonzero(past.at_s[:n] <= stamp_s)
        engine = EngineSim([server], n + UNSEEN + 1)
        engine.submit_many(*past.rows(kept))
    engine.advance(stamp_s)
    snapshot = export_snapshot(engine, 0, InstanceProfile.of(server), true_lengths=true_lengths)
    age_s = float(rng.choice([0.0, 0.02, 0.5, 5.0]))
    now_s = stamp_s + age_s
    late = np.sort([moment(rng, stamp_s, now_s, exact) for _ in range(int(rng.integers(0, UNSEEN + 1)))])
    rows = np.arange(n, n + len(late))
    instance, _, prompt, output, predicted, by_length = past.rows(rows)
    engine.submit_many(instance, late, prompt, output, predicted, by_length)
    room = server.limits.max_model_len - prompt
    cap = np.where(by_length, output, room).astype(np.int64)
    unseen = UnseenRequests.of(late, prompt, cap, output if true_lengths else predicted)
    engine.advance(now_s)
    return Moment(engine, snapshot, unseen, now_s, server.limits.max_model_len - 1)


def tight_tier(rng: Generator, *, exact: bool) -> Tier:
    """Asynchronous, several seats, and blocks for one or two full contexts."""
    while True:
        server = random_tier(rng, exact=exact)
        limits = server.limits
        roomy = limits.kv_blocks * limits.block_size > 3 * limits.max_model_len
        if limits.async_scheduling and limits.max_num_seqs >= 4 and not roomy:
            return server


def moment(rng: Generator, first_s: float, last_s: float, exact: bool) -> float:
    at_s = float(rng.uniform(first_s, last_s))
    return float(np.clip(round(at_s / GRID_S) * GRID_S, first_s, last_s)) if exact else at_s
