"""Dispatchers keep to their model, spread a burst and are driven by the seed alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rbx.config.dispatch import Dispatch
from rbx.config.policy import RoutedPolicy
from rbx.errors import ConfigError
from rbx.policy.build import build_policy
from rbx.policy.pool_state import PoolState
from tests.policy.algorithm1 import Ask, Server
from tests.policy.scenes import blind_latency_model, state_of, table_of, view_of

MODELS = ("small", "large")


class NoTpot:
    def predict(self, features: np.ndarray, tier_of_instance: np.ndarray) -> np.ndarray:
        raise AssertionError("a routed policy asks for no TPOT")


def pool() -> list[Server]:
    return [Server(model, 1e-7, 1e-7, 256, 8192) for model in (0, 0, 0, 1, 1)]


def place(
    config: RoutedPolicy, n: int, *, seed: int = 0, servers: list[Server] | None = None
) -> tuple[np.ndarray, PoolState]:
    servers = servers or pool()
    state = state_of(servers)
    policy = build_policy(config, MODELS, NoTpot(), blind_latency_model(servers), np.random.default_rng(seed))
    table = table_of([Ask(20, 100, math.inf, [0.5, 0.5], [50.0, 50.0]) for _ in range(n)])
    assignment = policy.assign(np.arange(n), table, view_of(servers, n), state)
    return assignment.instance, state


@pytest.mark.parametrize("dispatch", ["round-robin", "shortest-queue"])
def test_a_burst_spreads_within_one_of_the_fair_share(dispatch: Dispatch) -> None:
    instance, state = place(RoutedPolicy(router="passthrough", dispatch=dispatch), 64)
    counts = np.bincount(instance, minlength=5)
    assert counts.max() - counts.min() <= 1
    assert (state.running + state.waiting).tolist() == counts.tolist()


@pytest.mark.parametrize("dispatch", ["round-robin", "shortest-queue", "random"])
def test_always_keeps_to_its_model(dispatch: Dispatch) -> None:
    instance, _ = place(RoutedPolicy(router="always", model="large", dispatch=dispatch), 40)
    assert set(instance.tolist()) == {3, 4}


def test_mix_follows_its_shares() -> None:
    config = RoutedPolicy(router="mix", dispatch="random", shares={"small": 3.0, "large": 1.0})
    instance, _ = place(config, 4000)
    assert np.mean(instance >= 3) == pytest.approx(0.25, abs=0.03)


def test_a_share_of_zero_is_never_drawn() -> None:
    config = RoutedPolicy(router="mix", dispatch="random", shares={"small": 0.0, "large": 1.0})
    instance, _ = place(config, 500)
    assert instance.min() >= 3


def test_seed_zero_is_a_seed() -> None:
    config = RoutedPolicy(router="passthrough", dispatch="random")
    first, again, other = (place(config, 100, seed=seed)[0].tolist() for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_dead_and_short_servers_are_passed_over() -> None:
    servers = pool()
    servers[0].alive = False
    servers[1].max_model_len = 20
    instance, _ = place(RoutedPolicy(router="passthrough", dispatch="round-robin"), 30, servers=servers)
    assert set(instance.tolist()) == {2, 3, 4}


def test_an_unknown_model_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="huge"):
        place(RoutedPolicy(router="always", model="huge", dispatch="random"), 1)
