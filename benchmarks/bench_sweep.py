"""A whole cell in virtual time, scheduler and policy included, against a plain-Python decision loop."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rbx.config.base import parse
from rbx.config.experiment import Experiment
from rbx.config.policy import RouteBalancePolicy, RoutedPolicy, SinglePolicy
from rbx.config.pool import Pool, load_pool
from rbx.heads.bea.lengths import LengthRule
from rbx.sweep.context import SweepContext
from rbx.sweep.prompts import PromptTable
from rbx.sweep.simulate import SimulatedCell
from rbx.sweep.workload import Arriving, draw_workload
from tests.sweep.plain_cell import assignments

POOL = Path(__file__).resolve().parents[1] / "experiments" / "pools" / "paper.yaml"
REQUESTS = 3534
EVEN = (1 / 3, 1 / 3, 1 / 3)


class PriorTpot:
    """Stands for trained heads, which a benchmark can't ship: one lookup instead of a walk of trees."""

    def __init__(self, pool: Pool) -> None:
        self._tpot_s = np.array([tier.tpot_prior_s for tier in pool.tiers])

    def predict(self, features: np.ndarray, tier_of_instance: np.ndarray) -> np.ndarray:
        tpot_s: np.ndarray = self._tpot_s[tier_of_instance] * (1.0 + 0.01 * features[:, 0])
        return tpot_s


def _context(pool: Pool) -> SweepContext:
    rng = np.random.default_rng(0)
    n, m = REQUESTS, len(pool.models)
    output = np.clip(rng.exponential(200.0, (n, m)).astype(np.int64), 1, 1000)
    prompts = PromptTable(
        models=pool.models,
        prompt_ids=tuple(f"p{i}" for i in range(n)),
        input_tokens=rng.integers(10, 400, n),
        output_tokens=output,
        score=rng.random((n, m)),
        quality=rng.random((n, m)),
        length_tokens=np.maximum(output * rng.uniform(0.6, 1.4, (n, m)), 1.0),
    )
    cost = {"encode_s_per_request": 1e-4, "encode_s_per_token": 2e-6, "encode_max_tokens": 512}
    experiment = {
        "name": "bench",
        "grid": "none",
        "bundle": "none",
        "pool": "none",
        "workload": {"rates_per_s": [12.0]},
        "scheduler": {"decision_cost": cost},
        "policies": [{"kind": "passthrough"}],
    }
    return SweepContext(
        parse(Experiment, experiment, where="benchmark"),
        pool,
        prompts,
        PriorTpot(pool),
        (LengthRule(),) * len(pool.models),
    )


def _cpu_s(call: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def _per_second(context: SweepContext, policy: SinglePolicy, arriving: Arriving, times: int) -> float:
    def once() -> object:
        return SimulatedCell(context, policy, arriving, 0).run()

    once()
    return len(arriving.prompt) / _cpu_s(once, times)


def _peer(context: SweepContext, policy: SinglePolicy, arriving: Arriving, ours: float) -> dict[str, object]:
    """The same cell with plain-Python decisions, which are written for RouteBalance alone."""
    if not isinstance(policy, RouteBalancePolicy):
        return {}
    peer = REQUESTS / _cpu_s(lambda: assignments(context, arriving, policy.weights), 1)
    return {"peer": peer, "ratio": ours / peer, "peer_name": "plain-Python decisions, same engine"}


def rows() -> list[dict[str, object]]:
    """Requests per CPU second of one core; ``ratio`` is ours ÷ peer."""
    context = _context(load_pool(POOL).value)
    fused = RouteBalancePolicy(weights=EVEN)
    routed = RoutedPolicy(router="passthrough", dispatch="shortest-queue")
    table: list[dict[str, object]] = []
    for rate_per_s in (12.0, 30.0, 120.0):
        arriving = draw_workload(context.experiment.workload, context.prompts.input_tokens, rate_per_s, 0)
        for name, policy in (("RouteBalance", fused), ("passthrough", routed)):
            path = f"simulator: cell of {REQUESTS} requests, {name}, λ = {rate_per_s:g}"
            ours = _per_second(context, policy, arriving, 3)
            table.append(
                {"path": path, "ours": ours, "unit": "requests/s", **_peer(context, policy, arriving, ours)}
            )
    return table


if __name__ == "__main__":
    for row in rows():
        print(row)
