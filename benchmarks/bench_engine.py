"""A whole cell of the paper's pool in virtual time: the compiled engine, its plain reading, and SimPy.

All three serve the same requests of the same tiers. The SimPy version has one process an instance, which
forms a batch, sleeps for its step time and hands out the tokens; its rules are those of the plain reading.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import simpy

from rbx.config.pool import Tier, load_pool
from rbx.engine.simulator import EngineSim
from tests.engine.oracle import Instance, Request

POOL = Path(__file__).resolve().parents[1] / "experiments" / "pools" / "paper.yaml"
RATE_PER_S = 20.0
REQUESTS = 3534
PEER_REQUESTS = 1000  # the plain versions take seconds for these

Cell = list[tuple[int, float, int, int, int]]


def cell(tiers: list[Tier], n: int) -> Cell:
    """Poisson arrivals spread over all instances; about 300 output tokens each."""
    rng = np.random.default_rng(0)
    at_s = np.cumsum(rng.exponential(1.0 / RATE_PER_S, n))
    output = np.clip(rng.exponential(300.0, n).astype(int), 1, 4000)
    columns = (rng.integers(0, len(tiers), n), at_s, rng.integers(20, 600, n), output, output)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def run_engine(tiers: list[Tier], requests: Cell) -> float:
    engine = EngineSim(tiers, len(requests))
    engine.submit_many(*(list(column) for column in zip(*requests, strict=True)))
    engine.drain()
    return float(np.sum(engine.done_s))


def run_plain(tiers: list[Tier], requests: Cell) -> float:
    instances = [Instance(tier) for tier in tiers]
    submitted = [Request(slot, *row[1:], by_length=False) for slot, row in enumerate(requests)]
    for request, row in zip(submitted, requests, strict=True):
        instances[row[0]].submit(request)
    for instance in instances:
        instance.advance(float("inf"))
    return sum(request.done_s for request in submitted)


def run_simpy(tiers: list[Tier], requests: Cell) -> float:
    environment = simpy.Environment()
    instances = [Instance(tier) for tier in tiers]
    arrived = [simpy.Store(environment) for _ in tiers]
    submitted = [Request(slot, *row[1:], by_length=False) for slot, row in enumerate(requests)]

    def client() -> Generator[Any, Any, None]:
        for request, row in zip(submitted, requests, strict=True):
            yield environment.timeout(request.at_s - environment.now)
            yield arrived[row[0]].put(request)

    def server(instance: Instance, inbox: Any) -> Generator[Any, Any, None]:
        ahead = None
        while True:
            while inbox.items:
                instance.waiting.append((yield inbox.get()))
            batch = ahead or instance.schedule(environment.now)
            if not batch.shares:
                instance.waiting.append((yield inbox.get()))
                continue
            following = instance.schedule(environment.now)
            ahead = following if following.shares else None
            yield environment.timeout(batch.seconds(instance.tier))
            instance.update_from_output(batch, environment.now)

    environment.process(client())
    for instance, inbox in zip(instances, arrived, strict=True):
        environment.process(server(instance, inbox))
    environment.run()
    return sum(request.done_s for request in submitted)


def _measure(
    run: Callable[[list[Tier], Cell], float], tiers: list[Tier], n: int, times: int
) -> tuple[float, float]:
    """Requests per CPU second (median of ``times``) and the sum of completion times."""
    requests = cell(tiers, n)
    taken, total = [], 0.0
    for _ in range(times):
        start = time.process_time()  # of this process alone: other load on the machine does not count
        total = run(tiers, requests)
        taken.append(time.process_time() - start)
    return n / statistics.median(taken), total


def _latency_rows(tiers: list[Tier]) -> list[dict[str, object]]:
    """What one decision pays for the engine: moving the clock and reading every instance."""
    requests = cell(tiers, REQUESTS)
    engine = EngineSim(tiers, len(requests))
    engine.submit_many(*(list(column) for column in zip(*requests, strict=True)))
    moments = np.linspace(60.0, 120.0, 1201)
    engine.advance(float(moments[0]))
    start = time.process_time()
    for now_s in moments[1:].tolist():
        engine.advance(now_s)
        engine.telemetry()
    microseconds = (time.process_time() - start) / (len(moments) - 1) * 1e6
    path = f"engine: advance by 50 ms + telemetry, {len(tiers)} instances"
    return [{"path": path, "ours": microseconds, "unit": "µs"}]


def rows() -> list[dict[str, object]]:
    """Requests per second of the three (``ratio`` is ours ÷ peer), and the engine's share of one decision."""
    tiers = [instance.tier for instance in load_pool(POOL).value.instances]
    run_engine(tiers, cell(tiers, 1))  # compiles
    ours, _ = _measure(run_engine, tiers, REQUESTS, 9)
    table: list[dict[str, object]] = [
        {"path": f"engine: whole cell, {REQUESTS} requests, 13 instances", "ours": ours, "unit": "requests/s"}
    ]
    ours, total = _measure(run_engine, tiers, PEER_REQUESTS, 9)
    for name, run in (("plain reading, step by step", run_plain), ("SimPy, step by step", run_simpy)):
        peer, peer_total = _measure(run, tiers, PEER_REQUESTS, 1)
        if not np.isclose(peer_total, total, rtol=1e-9):
            raise AssertionError(f"{name} serves another cell: {peer_total} s against {total} s in all")
        table.append(
            {
                "path": f"engine: the first {PEER_REQUESTS} requests of a cell",
                "ours": ours,
                "peer": peer,
                "ratio": ours / peer,
                "unit": "requests/s",
                "peer_name": name,
            }
        )
    return table + _latency_rows(tiers)


if __name__ == "__main__":
    for row in rows():
        print(row)
