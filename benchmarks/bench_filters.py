"""What a filter adds to a decision: RouteBalance behind each rule, per request, against none."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from rbx.config.experiment import Slo
from rbx.config.policy import RouteBalancePolicy
from rbx.heads.calibration import Calibration
from rbx.heads.residuals import Residuals
from rbx.policy.base import Policy
from rbx.policy.build import build_policy
from rbx.policy.ttft.build import LatencyModel
from tests.policy.algorithm1 import Ask, Server
from tests.policy.filters.filtered_scenes import FixedTpot, rule_of
from tests.policy.scenes import shape_of, state_of, table_of, view_of

BATCH = 32
MODELS = ("a", "b", "c", "d")
SLO = Slo(ttft_s=0.5, tpot_s=0.06, e2e_s=30.0)
RULES: tuple[dict[str, Any] | None, ...] = (
    None,
    {"kind": "budget"},
    {"kind": "slos-serve"},
    {"kind": "qlm"},
    {"kind": "cdf"},
)


class _Speeds:
    def __init__(self, n_instances: int) -> None:
        self.prefill_tokens_per_s = np.full(n_instances, 8000.0)


def _policy(rule: dict[str, Any] | None, servers: list[Server], rng: np.random.Generator) -> Policy:
    residuals = Residuals.of([rng.normal(0.0, 0.05, 5000) for _ in MODELS])
    calibration = Calibration(MODELS, {"prefill-throughput": residuals}, {"xgboost": residuals}, {})
    latency = LatencyModel(shape_of(servers), (), (), (), calibration)
    vars(latency)["speeds"] = _Speeds(len(servers))
    config = RouteBalancePolicy(weights=(0.4, 0.3, 0.3), filter=None if rule is None else rule_of(**rule))
    tpot = FixedTpot([0.02] * len(servers))
    return build_policy(config, MODELS, tpot, latency, rng, SLO)


def _per_request_us(policy: Policy, servers: list[Server], rng: np.random.Generator) -> float:
    asks = [
        Ask(int(rng.integers(10, 400)), 1024, float("inf"), rng.random(4).tolist(), [200.0] * 4)
        for _ in range(BATCH)
    ]
    table = table_of(asks)._replace(ttft_target_s=np.full(BATCH, 0.5))
    view, order, times = view_of(servers, BATCH), np.arange(BATCH), []
    for _ in range(60):
        state = state_of(servers)
        start = time.perf_counter()
        policy.assign(order, table, view, state)
        times.append(time.perf_counter() - start)
    return statistics.median(times) / BATCH * 1e6


def rows() -> list[dict[str, object]]:
    """13 and 100 instances, the sizes of RouteBalance's Table 2."""
    rng = np.random.default_rng(0)
    found: list[dict[str, object]] = []
    for n_instances in (13, 100):
        servers = [Server(i % 4, 1e-7, 1e-7, 256, 8192) for i in range(n_instances)]
        for rule in RULES:
            name = "no filter" if rule is None else rule["kind"]
            taken_us = _per_request_us(_policy(rule, servers, rng), servers, rng)
            path = f"decision per request of a batch of {BATCH}, {n_instances} instances, {name}"
            found.append({"path": path, "ours": taken_us, "unit": "µs"})
    return found
