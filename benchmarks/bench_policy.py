"""Eq. 1 and Algorithm 1: the compiled kernel against a plain-Python reading, per request."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable

import numpy as np

from rbx.policy.objective import assign_batch
from tests.policy.algorithm1 import Ask, Server, assign
from tests.policy.scenes import shape_of, state_of, table_of

BATCH = 32
WEIGHTS = (1 / 3, 1 / 3, 1 / 3)


def _servers(n: int, rng: np.random.Generator) -> list[Server]:
    return [
        Server(
            model=i % 4,
            price_in_usd=1e-7 * (1 + i % 4),
            price_out_usd=1e-7 * (1 + i % 4),
            max_num_seqs=256,
            max_model_len=8192,
            running=int(rng.integers(0, 60)),
            pending_decode=float(rng.integers(0, 9000)),
        )
        for i in range(n)
    ]


def _asks(rng: np.random.Generator) -> list[Ask]:
    return [
        Ask(
            int(rng.integers(10, 400)),
            1024,
            float("inf"),
            rng.random(4).tolist(),
            rng.uniform(20, 600, 4).tolist(),
        )
        for _ in range(BATCH)
    ]


def _median_s(call: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _row(n_instances: int, rng: np.random.Generator) -> dict[str, object]:
    servers, asks = _servers(n_instances, rng), _asks(rng)
    shape, table, state = shape_of(servers), table_of(asks), state_of(servers)
    tpot_s, order, weights = np.full(n_instances, 0.02), np.arange(BATCH), np.array(WEIGHTS)
    no_ttft_s = np.zeros(0)

    def ours() -> object:
        return assign_batch(order, table, shape, tpot_s, no_ttft_s, weights, False, False, 0, state)

    def plain() -> object:
        return assign(asks, copy.deepcopy(servers), tpot_s.tolist(), WEIGHTS, minmax=False)

    ours()
    ours_us = _median_s(ours, 200) / BATCH * 1e6
    plain_us = _median_s(plain, 5) / BATCH * 1e6
    return {
        "path": f"scoring loop per request, {n_instances} instances",
        "ours": ours_us,
        "peer": plain_us,
        "ratio": plain_us / ours_us,
        "unit": "µs",
        "peer_name": "plain Python reading of Algorithm 1",
    }


def rows() -> list[dict[str, object]]:
    """One row a pool size: microseconds per request, amortised over a batch of 32."""
    rng = np.random.default_rng(0)
    return [_row(n_instances, rng) for n_instances in (13, 100, 500)]


if __name__ == "__main__":
    for row in rows():
        print(row)
