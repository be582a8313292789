"""What a gateway pays to know its pool: a view of 13 instances, and the events that it is made of.

Every instance has 50 requests running and 20 waiting, on the pool of the paper. A view follows at least one
token at each instance and more than a millisecond, so that nothing of an earlier one can be used again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rbx.config.endpoints import InstanceEndpoint
from rbx.config.gateway import Watch
from rbx.config.pool import Pool, load_pool
from rbx.serve.watch.pool_watch import PoolWatch
from tests.serve.watch.pages import METRICS

POOL = Path(__file__).parents[1] / "experiments/pools/paper.yaml"
RUNNING, WAITING, REPEATS = 50, 20, 300


def loaded(pool: Pool) -> tuple[PoolWatch, float]:
    """A watch with its load, and the time."""
    n = len(pool.instances)
    watch = PoolWatch(pool, [InstanceEndpoint(url="http://127.0.0.1:1/v1")] * n, Watch(), clock=lambda: 0.0)
    for i in range(n):
        for k in range(RUNNING):
            watch.dispatched(i, f"{i} {k}", 1.0, 500, 1000, 300)
        for k in range(RUNNING):
            watch.tokens(i, f"{i} {k}", 20.0, 1)
        for k in range(RUNNING, RUNNING + WAITING):
            watch.dispatched(i, f"{i} {k}", 20.0, 500, 1000, 300)
    return watch, 20.0


def each_s(act: Callable[[int], None]) -> np.ndarray:
    """Seconds of each of ``REPEATS`` calls."""
    taken = []
    for k in range(REPEATS):
        began_s = time.perf_counter()
        act(k)
        taken.append(time.perf_counter() - began_s)
    return np.array(taken[20:])


def row(path: str, seconds: np.ndarray, unit: str, scale: float, **more: object) -> dict[str, object]:
    p99 = scale * float(np.quantile(seconds, 0.99))
    return {"path": path, "ours": scale * float(np.median(seconds)), "unit": unit, "p99": p99, **more}


def views(watch: PoolWatch, now_s: float, instances: int) -> np.ndarray:
    """Seconds of a view after a token everywhere; the tokens themselves are not counted."""
    taken = []
    for k in range(REPEATS):
        at_s = now_s + 0.01 * k
        for i in range(instances):
            watch.tokens(i, f"{i} {k % RUNNING}", at_s, 2 + k // RUNNING)
        began_s = time.perf_counter()
        watch.view(at_s + 0.005)
        taken.append(time.perf_counter() - began_s)
    return np.array(taken[20:])


def ends(watch: PoolWatch, now_s: float) -> np.ndarray:
    """Seconds of an end of a request that runs; another takes its seat at once."""
    taken = []
    for k in range(REPEATS):
        at_s, name = now_s + 0.01 * k, f"2 {k % RUNNING}"
        began_s = time.perf_counter()
        watch.ended(2, name, at_s)
        taken.append(time.perf_counter() - began_s)
        watch.dispatched(2, name, at_s, 500, 1000, 300)
        watch.tokens(2, name, at_s + 0.005, 1)
    return np.array(taken[20:])


def rows() -> list[dict[str, object]]:
    pool = load_pool(POOL).value
    n = len(pool.instances)
    watch, now_s = loaded(pool)
    watch.view(now_s)
    viewed_s = views(watch, now_s, n)
    now_s += 0.01 * REPEATS + 1.0
    same_s = each_s(lambda k: (watch.view(now_s), None)[1])
    token_s = each_s(lambda k: watch.tokens(0, f"0 {k % RUNNING}", now_s + 0.01 * k, 100 + k // RUNNING))
    now_s += 0.01 * REPEATS

    def dispatch(k: int) -> None:
        watch.dispatched(1, f"new {k}", now_s, 500, 1000, 300)

    dispatch_s = each_s(dispatch)
    cancel_s = each_s(lambda k: watch.ended(1, f"new {k}", now_s))
    ended_s = ends(watch, now_s)
    text = (METRICS / "vllm_0_9_1.txt").read_text(encoding="utf-8")
    page = text + "".join(f'vllm:some_seconds_bucket{{engine="0",le="{k}"}} {k}.0\n' for k in range(1500))
    single = watch.instance(3)
    page_s = each_s(lambda k: single.page(page.replace("15811", str(20000 + k)), now_s + k, now_s + k))
    return [
        row("watch: view of 13 instances, 50 running and 20 waiting each", viewed_s, "ms", 1e3),
        row("watch: view again within a millisecond", same_s, "µs", 1e6),
        row("watch: a token", token_s, "µs", 1e6),
        row("watch: a dispatch", dispatch_s, "µs", 1e6),
        row("watch: an end", ended_s, "µs", 1e6),
        row(f"watch: an end of one that waits, among {WAITING + REPEATS}", cancel_s, "µs", 1e6),
        row("watch: a page of /metrics taken in", page_s, "ms", 1e3, kilobytes=len(page) // 1000),
    ]
