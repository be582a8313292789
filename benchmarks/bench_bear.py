"""One BEAR decision over 13 instances (RouteBalance's pool) on ready snapshots, beside plain replays of them.

The peer is the step-by-step replay that the tests hold the engine to, once for each instance; both must
find the same instances in time and agree on the chosen one's TTFT.
"""

from __future__ import annotations

import math
import statistics
import time
from pathlib import Path

import numpy as np

from benchmarks.bench_bea import State, replay_plainly, state
from rbx.config.policy import BearPolicy
from rbx.config.pool import load_pool
from rbx.engine.telemetry import PoolTelemetry
from rbx.heads.bea.lengths import LengthRule
from rbx.heads.bea.prediction import Probe
from rbx.heads.bea.ttft import predict_ttft
from rbx.heads.bea.unseen import NOTHING_UNSEEN
from rbx.policy.bear.router import Bear
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.ttft.bea import BeaTtft
from rbx.policy.view import PoolView

POOL = Path(__file__).resolve().parents[1] / "experiments/pools/paper.yaml"
DECISIONS, REPEATS, PROMPT_TOKENS = 10, 9, 500
# Running and waiting on each instance.
SCENES = (("moderate load", 16, 0), ("heavy load", 64, 10))


def request(rng: np.random.Generator, models: int) -> RequestTable:
    """One request that the hard rule must think about."""
    return RequestTable(
        input_tokens=np.array([PROMPT_TOKENS]),
        max_tokens=np.array([1024]),
        budget_usd=np.array([math.inf]),
        quality=rng.uniform(0.0, 1.0, (1, models)),
        length_tokens=rng.uniform(50.0, 400.0, (1, models)).round(),
        ttft_target_s=np.array([0.5]),
    ).checked()


def view_of(states: list[State]) -> PoolView:
    """Fresh snapshots of all instances; nothing is under way to them."""
    now_s, n = states[0].now_s, len(states)
    zeros = np.zeros(n, dtype=np.int64)
    telemetry = PoolTelemetry(np.full(n, now_s), *(zeros for _ in range(8)))
    snapshots = tuple(one.snapshot for one in states)
    return PoolView(now_s, now_s, 0.0, np.full(1, now_s), telemetry, snapshots, (NOTHING_UNSEEN,) * n)


def decision_row(name: str, running: int, waiting: int) -> dict[str, object]:
    """Median over states of the fastest of a few repeats of the whole decision."""
    rng, pool = np.random.default_rng([running, waiting]), load_pool(POOL).value
    shape, ours, plainly, single, in_time = PoolShape.of(pool), [], [], [], 0
    router = Bear(BearPolicy(), shape, BeaTtft(shape, (LengthRule(),) * len(pool.models)))
    only = np.zeros(1, dtype=np.int64)
    for _ in range(DECISIONS):
        now_s = float(rng.uniform(1.0, 3.0)) * (1.0 + running / 100.0)
        states = [state(rng, one.tier, running, waiting, now_s) for one in pool.instances]
        table, view = request(rng, len(pool.models)), view_of(states)
        best_s = math.inf
        for _ in range(REPEATS):
            load = PoolState.idle(shape.n_instances)
            begin = time.perf_counter()
            answer = router.assign(only, table, view, load)
            best_s = min(best_s, time.perf_counter() - begin)
        ours.append(best_s * 1e6)
        in_time += int(answer.on_time[0])
        seconds, ttft_s = zip(*(replay_plainly(one, PROMPT_TOKENS) for one in states), strict=True)
        plainly.append(sum(seconds) * 1e6)
        if not math.isclose(answer.ttft_s[0], ttft_s[answer.instance[0]], rel_tol=1e-9):
            raise AssertionError(
                f"{answer.ttft_s[0]} s against {ttft_s[answer.instance[0]]} s by the plain replay"
            )
        if sum(value <= 0.5 for value in ttft_s) != answer.on_time[0]:
            raise AssertionError("the plain replay finds other instances in time")
        for one in states:
            begin = time.perf_counter()
            predict_ttft(one.snapshot, Probe(PROMPT_TOKENS))
            single.append((time.perf_counter() - begin) * 1e6)
    return {
        "path": f"bear: one decision, 13 instances, {name} ({running} running, {waiting} waiting each)",
        "ours": statistics.median(ours),
        "peer": statistics.median(plainly),
        "ratio": statistics.median(plainly) / statistics.median(ours),
        "peer_name": "plain replays of the same instances",
        "unit": "µs",
        "slowest": max(ours),
        "one prediction": statistics.median(single),
        "in time": f"{in_time / DECISIONS:.1f} of 13",
    }


def rows() -> list[dict[str, object]]:
    """Microseconds a decision."""
    decision_row(*SCENES[0])  # compiles
    return [decision_row(*scene) for scene in SCENES]


if __name__ == "__main__":
    for row in rows():
        print(row)
