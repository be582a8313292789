"""BEAR's router against a plain reading of its rules, and what must follow from them."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rbx.config.policy import BearPolicy, RoutedPolicy
from rbx.policy.base import MODES, Assignment, Needs
from rbx.policy.bear.router import Bear
from rbx.policy.pool_state import PoolState
from rbx.policy.routed import Routed
from rbx.policy.routers import ANY_MODEL, Fixed
from rbx.policy.view import PoolView, Served
from tests.policy.algorithm1 import Ask, Server
from tests.policy.plain_bear import bear
from tests.policy.scenes import (
    random_asks,
    random_servers,
    shape_of,
    state_of,
    table_of,
    telemetry_of,
)


class QueueTtft:
    """A TTFT that follows from the state, coarse enough for ties: queue steps and prompt."""

    def __init__(self) -> None:
        self.needs = Needs()
        self.booked: list[tuple[int, int, int, float]] = []

    def look(self, view: PoolView, state: PoolState) -> None:
        self.booked.clear()

    def ttft_s(
        self, input_tokens: int, candidates: NDArray[np.bool_], state: PoolState, within_s: float = np.inf
    ) -> NDArray[np.float64]:
        seconds = 0.125 * (state.running + state.waiting) + (input_tokens // 100) / 64
        return np.where(seconds <= within_s, seconds, np.inf)

    def book(self, instance: int, input_tokens: int, max_tokens: int, length_tokens: float) -> None:
        self.booked.append((instance, input_tokens, max_tokens, length_tokens))

    def learn(self, served: Served) -> None:
        raise AssertionError("it asks for no answers")


ARRIVED_S, ENTERS_S, RETURNS_S = 3.0, 3.25, 0.0625


def plain_ttft(ask: Ask, server: Server, _: int) -> float:
    at_instance = 0.125 * (server.running + server.waiting) + (ask.input_tokens // 100) / 64
    return at_instance + (ENTERS_S - ARRIVED_S + RETURNS_S)


def decide(
    config: BearPolicy, asks: list[Ask], servers: list[Server], targets: list[float]
) -> tuple[Assignment, PoolState, QueueTtft]:
    state, ttft = state_of(servers), QueueTtft()
    table = table_of(asks)._replace(ttft_target_s=np.array(targets))
    view = PoolView(3.1, ENTERS_S, RETURNS_S, np.full(len(asks), ARRIVED_S), telemetry_of(servers))
    router = Bear(config, shape_of(servers), None if config.ttft is None else ttft)
    return router.assign(np.arange(len(asks)), table, view, state), state, ttft


RULES: list[dict[str, Any]] = [
    {"rule": "hard"},
    {"rule": "hard", "fallback": "sacrifice"},
    {"rule": "hard", "safety_s": 0.25},
    {"rule": "hard", "fallback": "shed"},
    {"rule": "soft", "delta_per_s": 0.0},
    {"rule": "soft", "delta_per_s": 0.5},
    {"rule": "soft", "delta_per_s": 64.0, "cost_weight_per_usd": 0.0},
]


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**31), rule=st.sampled_from(RULES))
def test_it_decides_as_its_rules_are_written(seed: int, rule: dict[str, Any]) -> None:
    rng = np.random.default_rng(seed)
    n_models = int(rng.integers(1, 4))
    servers, asks = random_servers(rng, n_models), random_asks(rng, int(rng.integers(1, 12)), n_models)
    targets = [float(t) for t in rng.choice([0.25, 0.5, 0.75, 1.25, math.inf], len(asks))]
    answer, state, ttft = decide(BearPolicy(**rule), asks, copy.deepcopy(servers), targets)
    expected = bear(
        asks,
        servers,
        plain_ttft,
        targets,
        rule=rule["rule"],
        fallback=rule.get("fallback", "min-ttft"),
        per_usd=rule.get("cost_weight_per_usd", 500.0),
        delta=rule.get("delta_per_s", 0.0),
        safety_s=rule.get("safety_s", 0.0),
    )
    assert answer.instance.tolist() == [choice.instance for choice in expected]
    assert [MODES[mode] for mode in answer.mode.tolist()] == [choice.mode for choice in expected]
    assert answer.on_time.tolist() == [choice.on_time for choice in expected]
    assert answer.max_tokens.tolist() == [choice.cap for choice in expected]
    assert answer.length_tokens.tolist() == [choice.length for choice in expected]
    np.testing.assert_array_equal(answer.ttft_s, [choice.ttft_s for choice in expected])
    assert state.running.tolist() == [server.running for server in servers]
    assert state.waiting.tolist() == [server.waiting for server in servers]
    assert state.pending_prefill_tokens.tolist() == [server.pending_prefill for server in servers]
    assert state.last_used.tolist() == [server.last_used for server in servers]
    told = [(c.instance, a.input_tokens, c.cap, c.length) for a, c in zip(asks, expected, strict=True)]
    assert ttft.booked == [row for row in told if row[0] >= 0]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_without_a_price_on_time_it_is_the_router_that_knows_no_latency(seed: int) -> None:
    rng = np.random.default_rng(seed)
    servers, asks = random_servers(rng, 3), random_asks(rng, 10, 3)
    targets = [0.25] * len(asks)
    soft, after_soft, _ = decide(BearPolicy(rule="soft"), asks, copy.deepcopy(servers), targets)
    blind, after_blind, _ = decide(BearPolicy(rule="soft", ttft=None), asks, servers, targets)
    assert soft.instance.tolist() == blind.instance.tolist()
    assert soft.max_tokens.tolist() == blind.max_tokens.tolist()
    assert (blind.on_time == -1).all()
    for one, other in zip(after_soft, after_blind, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("target_s", [0.0625, 1.0, math.inf])
@pytest.mark.parametrize("seed", range(20))
def test_on_equal_replicas_it_is_the_shortest_queue(seed: int, target_s: float) -> None:
    """Utilities are equal, so that TTFT or the tie-break decides, and both follow the queue."""
    rng = np.random.default_rng(seed)
    servers = [
        Server(0, 1e-7, 1e-7, 64, 8192, running=int(rng.integers(0, 9)), last_used=int(rng.integers(0, 9)))
        for _ in range(5)
    ]
    asks = [Ask(int(rng.integers(1, 400)), 100, math.inf, [0.5], [50.0]) for _ in range(30)]
    answer, _, _ = decide(BearPolicy(), asks, copy.deepcopy(servers), [target_s] * len(asks))
    config = RoutedPolicy(router="passthrough", dispatch="shortest-queue")
    assert isinstance(config.dispatch, str)
    shortest = Routed(Fixed(ANY_MODEL), config.dispatch, shape_of(servers), 1, rng)
    view = PoolView(3.1, ENTERS_S, RETURNS_S, np.full(len(asks), ARRIVED_S), telemetry_of(servers))
    state = state_of(servers)
    expected = shortest.assign(np.arange(len(asks)), table_of(asks), view, state)
    assert answer.instance.tolist() == expected.instance.tolist()
    assert len(set(answer.instance.tolist())) == 5
