"""Requests of different rights in one batch."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.config.policy import RouteBalancePolicy, Weights
from rbx.policy.build import build_policy
from rbx.policy.pool_state import PoolState
from rbx.policy.view import PoolView
from rbx.serve.gateway.latency_model import latency_model
from rbx.serve.gateway.live_table import LiveTable
from rbx.serve.gateway.restricted import RestrictedPolicy
from tests.serve.gateway.serving import small_pool
from tests.serve.gateway.stand_in import StandInWatch

POOL = small_pool()
SHAPE = latency_model(POOL, None, 256, 1024).shape
N = len(POOL.instances)
CHOICES: tuple[Weights | None, ...] = (None, (0.0, 1.0, 0.0), (0.2, 0.2, 0.6))
OWN: Weights = (0.6, 0.2, 0.2)


class NoTpot:
    def predict(
        self, features: object, tier_of_instance: object
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        raise AssertionError("the prior is used")


def routebalance(weights: Weights) -> RestrictedPolicy:
    config = RouteBalancePolicy(weights=weights, latency="prior")
    latency = latency_model(POOL, None, 256, 1024)
    policy = build_policy(config, POOL.models, NoTpot(), latency, np.random.default_rng(0))
    return RestrictedPolicy(policy, policy, LiveTable(64, N, len(POOL.models)))


def view(n: int) -> PoolView:
    return PoolView(0.0, 0.0, 0.0, np.zeros(n), StandInWatch(POOL).view(0.0).telemetry)


RIGHTS = st.tuples(st.lists(st.booleans(), min_size=N, max_size=N), st.sampled_from(CHOICES))


@settings(max_examples=60, deadline=None)
@given(rights=st.lists(RIGHTS, min_size=1, max_size=12), seed=st.integers(0, 2**32 - 1))
def test_a_mixed_batch_is_its_groups_one_after_the_other(
    rights: list[tuple[list[bool], Weights | None]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    mixed = routebalance(OWN)
    live = mixed._live
    for allowed, weights in rights:
        row = live.take("", int(rng.integers(1, 900)), int(rng.integers(1, 200)), np.inf, np.inf)
        live.predict(row, rng.random(2), rng.uniform(1, 300, 2), rng.random(2))
        live.allowed[row] = allowed
        if weights is not None:
            live.weights[row] = weights
    mixed.alive = rng.random(N) < 0.8
    state = PoolState.idle(N)
    requests = np.arange(len(rights))
    found = mixed.assign(requests, live.columns, view(len(rights)), state)

    expected = np.full(len(rights), -1)
    step = PoolState.idle(N)
    groups: dict[tuple[tuple[bool, ...], Weights | None], list[int]] = {}
    for k, (allowed, weights) in enumerate(rights):
        groups.setdefault((tuple(allowed), weights), []).append(k)
    sequence = 0
    for (allowed_of, weights), members in groups.items():
        alone = routebalance(weights or OWN)._policy
        vars(alone)["_sequence"] = sequence
        step.alive[:] = np.array(allowed_of) & mixed.alive
        answer = alone.assign(np.array(members), live.columns, view(len(members)), step)
        expected[members] = answer.instance
        sequence += len(members)
    assert found.instance.tolist() == expected.tolist()
    assert state.running.tolist() == step.running.tolist()
    for k, (allowed, _) in enumerate(rights):
        i = int(found.instance[k])
        possible = np.array(allowed) & mixed.alive & (live.columns.input_tokens[k] < SHAPE.max_model_len)
        assert possible[i] if i >= 0 else not possible.any()
