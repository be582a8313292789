"""The compiled objective against a step-by-step reading of Algorithm 1, and its invariants."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.policy.objective import assign_batch
from tests.policy.algorithm1 import Ask, Placed, Server, assign
from tests.policy.scenes import random_asks, random_servers, shape_of, state_of, table_of

EQUAL = (1 / 3, 1 / 3, 1 / 3)


def run_kernel(
    asks: list[Ask],
    servers: list[Server],
    weights: tuple[float, float, float] = EQUAL,
    *,
    minmax: bool = False,
    by_latency: bool = False,
    tpot_s: list[float] | None = None,
) -> tuple[list[Placed], list[Server]]:
    """Kernel result in the plain form, with the servers as the kernel left them."""
    state = state_of(servers)
    tpot = np.array(tpot_s if tpot_s is not None else [0.02] * len(servers))
    table = table_of(asks)
    requests = np.arange(len(asks))
    columns = assign_batch(
        requests,
        table,
        shape_of(servers),
        tpot,
        np.zeros(0),
        np.array(weights),
        minmax,
        by_latency,
        100,
        state,
    )
    placed = [Placed(int(i), int(c), float(n), float(t)) for i, c, n, t in zip(*columns, strict=True)]
    after = [
        Server(
            s.model,
            s.price_in_usd,
            s.price_out_usd,
            s.max_num_seqs,
            s.max_model_len,
            int(state.running[i]),
            int(state.waiting[i]),
            int(state.pending_prefill_tokens[i]),
            float(state.pending_decode_tokens[i]),
            s.alive,
            int(state.last_used[i]),
        )
        for i, s in enumerate(servers)
    ]
    return placed, after


@settings(max_examples=400, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    minmax=st.booleans(),
    by_latency=st.booleans(),
    no_latency_weight=st.booleans(),
)
def test_kernel_equals_the_step_by_step_reading(
    seed: int, minmax: bool, by_latency: bool, no_latency_weight: bool
) -> None:
    rng = np.random.default_rng(seed)
    n_models = int(rng.integers(1, 5))
    servers = random_servers(rng, n_models)
    asks = random_asks(rng, int(rng.integers(1, 12)), n_models)
    raw = rng.choice([0.0, 0.2, 0.5, 1.0], 3) + 1e-3
    weights = (float(raw[0]), 0.0 if no_latency_weight else float(raw[1]), float(raw[2]))
    tpot_s = [float(t) for t in rng.choice([0.01, 0.02, 0.05], len(servers))]
    got, after = run_kernel(asks, servers, weights, minmax=minmax, by_latency=by_latency, tpot_s=tpot_s)
    expected = assign(asks, servers, tpot_s, weights, minmax=minmax, by_latency=by_latency, sequence=100)
    assert [(p.instance, p.cap, p.length) for p in got] == [(p.instance, p.cap, p.length) for p in expected]
    assert [p.latency_s for p in got] == pytest.approx([p.latency_s for p in expected], nan_ok=True)
    assert after == servers


def idle(model: int = 0, price: float = 1e-7, seats: int = 256) -> Server:
    return Server(model, price, price, seats, 8192)


def test_a_burst_on_an_idle_tier_spreads_evenly() -> None:
    asks = [Ask(50, 100, math.inf, [0.5], [100.0]) for _ in range(64)]
    placed, _ = run_kernel(asks, [idle() for _ in range(8)])
    counts = np.bincount([p.instance for p in placed], minlength=8)
    assert counts.max() - counts.min() <= 1


def test_an_idle_expensive_model_wins_only_when_quality_outweighs_it() -> None:
    small, large = idle(0, 0.06e-6), idle(1, 0.4e-6)
    ask = Ask(100, 1024, math.inf, [0.3, 0.9], [200.0, 200.0])
    by_quality, _ = run_kernel([ask], [small, large], (1.0, 0.0, 0.0))
    by_cost, _ = run_kernel([ask], [small, large], (0.0, 0.0, 1.0))
    assert (by_quality[0].instance, by_cost[0].instance) == (1, 0)


def test_a_full_server_is_priced_with_its_backlog() -> None:
    full = idle(0, seats=2)
    full.running, full.pending_decode = 2, 400.0
    ask = Ask(10, 1024, math.inf, [0.5], [100.0])
    placed, _ = run_kernel([ask], [full], tpot_s=[0.02])
    assert placed[0].latency_s == pytest.approx(0.02 * (400 / 2 + 100))


def test_budget_zero_falls_to_the_cheapest_with_one_token() -> None:
    ask = Ask(100, 1024, 0.0, [0.3, 0.9], [200.0, 200.0])
    placed, _ = run_kernel([ask], [idle(0, 0.06e-6), idle(1, 0.4e-6)], (1.0, 0.0, 0.0))
    assert (placed[0].instance, placed[0].cap) == (0, 1)


def test_budget_for_exactly_n_tokens_allows_n_tokens() -> None:
    price = 0.4e-6
    for n in range(1, 600):
        ask = Ask(1, 1024, (1 + n) * price, [0.5], [float(n)])
        placed, _ = run_kernel([ask], [idle(0, price)])
        assert placed[0].cap == n


def test_nobody_alive_places_nobody() -> None:
    dead = idle()
    dead.alive = False
    placed, after = run_kernel([Ask(10, 10, math.inf, [0.5], [5.0])], [dead])
    assert placed[0].instance == -1
    assert after == [dead]


def test_without_a_weight_on_latency_the_tie_break_is_what_balances_replicas() -> None:
    """Arms 2 and 3 of RouteBalance's Table 7: many short answers wait here, few long ones there."""
    short, long = idle(seats=2), idle(seats=2)
    short.running, short.waiting, short.pending_decode = 2, 6, 100.0
    long.running, long.waiting, long.pending_decode = 2, 3, 4000.0
    ask = Ask(10, 1024, math.inf, [0.5], [100.0])
    reactive, _ = run_kernel([ask], [short, long], (0.5, 0.0, 0.5))
    predicted, _ = run_kernel([ask], [short, long], (0.5, 0.0, 0.5), by_latency=True)
    assert (reactive[0].instance, predicted[0].instance) == (1, 0)


def test_free_pool_does_not_divide_by_zero() -> None:
    ask = Ask(10, 10, math.inf, [0.5, 0.7], [5.0, 5.0])
    placed, _ = run_kernel([ask], [idle(0, 0.0), idle(1, 0.0)])
    assert placed[0].instance == 1


def test_no_queue_outweighs_a_quality_gain_above_the_ratio_of_the_weights() -> None:
    """The latency term is scaled to the worst candidate, so it can't exceed its weight (README)."""
    ask = Ask(50, 1024, math.inf, [0.5, 0.5 + 0.13], [100.0, 100.0])
    for backlog in (1e3, 1e6, 1e9):
        drowned = idle(1)
        drowned.running, drowned.waiting, drowned.pending_decode = 256, 500, backlog
        placed, _ = run_kernel([ask], [idle(0), drowned], (0.8, 0.1, 0.1))
        assert placed[0].instance == 1
