"""Random pools and batches, in the plain form and as the arrays that the kernels take."""

from __future__ import annotations

import math

import numpy as np

from rbx.engine.telemetry import PoolTelemetry
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.ttft.build import LatencyModel
from rbx.policy.view import PoolView
from tests.policy.algorithm1 import Ask, Server


def random_servers(rng: np.random.Generator, n_models: int) -> list[Server]:
    """Replicated tiers, so that ties happen; some servers full, some dead, some short of context."""
    servers: list[Server] = []
    for model in range(n_models):
        price = float(rng.choice([0.0, 0.06e-6, 0.15e-6, 0.4e-6]))
        for _ in range(int(rng.integers(1, 4))):
            cap = int(rng.integers(1, 6))
            running = int(rng.integers(0, cap + 1))
            servers.append(
                Server(
                    model=model,
                    price_in_usd=price,
                    price_out_usd=price,
                    max_num_seqs=cap,
                    max_model_len=int(rng.choice([50, 400, 8192])),
                    running=running,
                    waiting=int(rng.integers(0, 4)) if running == cap else 0,
                    pending_prefill=int(rng.integers(0, 2000)),
                    pending_decode=float(rng.integers(0, 2000)),
                    alive=bool(rng.random() < 0.9),
                    last_used=int(rng.integers(-1, 20)),
                )
            )
    return servers


def random_asks(rng: np.random.Generator, n: int, n_models: int) -> list[Ask]:
    """Coarse qualities and lengths, so that ties happen; some budgets bind, some nobody meets."""
    budgets = [math.inf, math.inf, 1e-3, 3e-5, 0.0]
    return [
        Ask(
            input_tokens=int(rng.integers(1, 500)),
            max_tokens=int(rng.choice([1, 64, 1024])),
            budget_usd=float(rng.choice(budgets)),
            quality=[float(q) for q in rng.choice([0.0, 0.25, 0.5, 1.0], n_models)],
            length=[float(length) for length in rng.choice([1.0, 40.0, 300.0, 900.0], n_models)],
        )
        for _ in range(n)
    ]


def table_of(asks: list[Ask]) -> RequestTable:
    return RequestTable(
        input_tokens=np.array([ask.input_tokens for ask in asks], dtype=np.int64),
        max_tokens=np.array([ask.max_tokens for ask in asks], dtype=np.int64),
        budget_usd=np.array([ask.budget_usd for ask in asks]),
        quality=np.array([ask.quality for ask in asks]),
        length_tokens=np.array([ask.length for ask in asks]),
        ttft_target_s=np.full(len(asks), np.inf),
    ).checked()


def shape_of(servers: list[Server]) -> PoolShape:
    return PoolShape(
        model=np.array([s.model for s in servers], dtype=np.int64),
        tier=np.array([s.model for s in servers], dtype=np.int64),
        price_in_usd=np.array([s.price_in_usd for s in servers]),
        price_out_usd=np.array([s.price_out_usd for s in servers]),
        max_num_seqs=np.array([s.max_num_seqs for s in servers], dtype=np.int64),
        max_model_len=np.array([s.max_model_len for s in servers], dtype=np.int64),
        tpot_prior_s=np.full(len(servers), 0.02),
    )


def state_of(servers: list[Server]) -> PoolState:
    return PoolState(
        running=np.array([s.running for s in servers], dtype=np.int64),
        waiting=np.array([s.waiting for s in servers], dtype=np.int64),
        pending_prefill_tokens=np.array([s.pending_prefill for s in servers], dtype=np.int64),
        pending_decode_tokens=np.array([s.pending_decode for s in servers]),
        alive=np.array([s.alive for s in servers]),
        last_used=np.array([s.last_used for s in servers], dtype=np.int64),
    )


def telemetry_of(servers: list[Server], received: int = 0, stamp_s: float = 0.0) -> PoolTelemetry:
    """Instances that look idle, whatever the servers hold."""
    zeros = np.zeros(len(servers), dtype=np.int64)
    stamp = np.full(len(servers), stamp_s)
    return PoolTelemetry(stamp, zeros, zeros, zeros, zeros, zeros, zeros + 9, zeros + 9, zeros + received)


def view_of(servers: list[Server], n_requests: int) -> PoolView:
    """A decision at time 0 for requests that have just arrived, without a network."""
    return PoolView(0.0, 0.0, 0.0, np.zeros(n_requests), telemetry_of(servers))


def blind_latency_model(servers: list[Server]) -> LatencyModel:
    """For policies that ask nothing of it but the pool's shape."""
    return LatencyModel(shape_of(servers), (), (), ())
