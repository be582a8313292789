"""Every scored dispatcher against a plain reading of its formula on random scenes."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator

from rbx.config.dispatch import EwmaLatency, LeastWork, LmDeploy, PowerOfD
from rbx.policy.ask import asks as priced
from rbx.policy.base import Ints
from rbx.policy.dispatchers.ewma_latency import PastTtft
from rbx.policy.dispatchers.instance_score import InstanceScore
from rbx.policy.dispatchers.least_work import BacklogSeconds
from rbx.policy.dispatchers.llumnix import Freeness
from rbx.policy.dispatchers.lmdeploy import UnfinishedForSpeed
from rbx.policy.dispatchers.power_of_d import FewQueues
from rbx.policy.routers import ANY_MODEL, Fixed
from rbx.policy.scored import ScoredDispatch
from rbx.policy.speeds import Speeds
from rbx.policy.view import PoolView, Served
from tests.policy.algorithm1 import Ask, Server
from tests.policy.plain_dispatch import place_plainly
from tests.policy.scenes import (
    random_asks,
    random_servers,
    shape_of,
    state_of,
    table_of,
    view_of,
)

SEEDS = st.integers(0, 2**31)


def by_instance(values: dict[int, float]) -> Callable[[Ask, int], float]:
    """A score that is the same for every request."""
    return lambda _, i: values[i]


def place(
    score: InstanceScore,
    asks: list[Ask],
    servers: list[Server],
    *,
    view: PoolView | None = None,
    model: int = ANY_MODEL,
) -> Ints:
    """What the dispatcher does with the scene; ``servers`` are left alone."""
    policy = ScoredDispatch(Fixed(model), score, shape_of(servers))
    view = view or view_of(servers, len(asks))
    return policy.assign(np.arange(len(asks)), table_of(asks), view, state_of(servers)).instance


def scene(seed: int) -> tuple[Generator, list[Server], list[Ask]]:
    rng = np.random.default_rng(seed)
    n_models = int(rng.integers(1, 4))
    return rng, random_servers(rng, n_models), random_asks(rng, int(rng.integers(1, 15)), n_models)


def random_speeds(rng: Generator, n: int) -> Speeds:
    """Powers of two, so that ties happen."""
    theta, phi, mu = (np.exp2(rng.integers(low, low + 4, n)) for low in (8, 5, -1))
    return Speeds(theta, phi, mu, decode_step_s=np.full(n, 0.01))


def served(instance: list[int], ttft_s: list[float], request: list[int] | None = None) -> Served:
    n = len(instance)
    return Served(
        request=np.array(request if request is not None else range(n), dtype=np.int64),
        instance=np.array(instance, dtype=np.int64),
        input_tokens=np.full(n, 10),
        output_tokens=np.full(n, 11),
        arrived_s=np.zeros(n),
        first_token_s=np.array(ttft_s),
        done_s=np.array(ttft_s) + 1.0,
    )


@settings(max_examples=150, deadline=None)
@given(seed=SEEDS, weight=st.sampled_from([0.0, 0.5, 1.0]))
def test_least_work_takes_the_fewest_seconds_of_backlog(seed: int, weight: float) -> None:
    rng, servers, asks = scene(seed)
    speeds = random_speeds(rng, len(servers))
    got = place(BacklogSeconds(LeastWork(decode_weight=weight), speeds), asks, servers)
    theta, phi = speeds.prefill_tokens_per_s.tolist(), speeds.decode_tokens_per_s.tolist()

    def seconds(_: Ask, i: int) -> float:
        backlog = servers[i].pending_prefill, servers[i].pending_decode
        return float(backlog[0] / theta[i] + weight * (backlog[1] / phi[i]))

    assert got.tolist() == place_plainly(asks, servers, seconds)


@settings(max_examples=150, deadline=None)
@given(seed=SEEDS)
def test_llumnix_takes_the_most_free_blocks_for_each_request(seed: int) -> None:
    rng, servers, asks = scene(seed)
    n = len(servers)
    block_size = rng.choice([8, 16], n)
    free = rng.integers(100, 400, n)
    view = view_of(servers, len(asks))
    shown = np.array([server.pending_prefill for server in servers])
    telemetry = replace(view.telemetry, free_blocks=free, pending_prefill_tokens=shown)
    got = place(Freeness(block_size), asks, servers, view=replace(view, telemetry=telemetry))

    def crowding(_: Ask, i: int) -> float:
        requests = servers[i].running + servers[i].waiting
        taken = math.ceil((servers[i].pending_prefill - int(shown[i])) / int(block_size[i]))
        return -(int(free[i]) - taken) / requests if requests else -math.inf

    assert got.tolist() == place_plainly(asks, servers, crowding)


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS, d=st.integers(1, 4))
def test_power_of_d_takes_the_shortest_queue_of_those_it_draws(seed: int, d: int) -> None:
    _, servers, asks = scene(seed)
    got = place(FewQueues(PowerOfD(d=d), np.random.default_rng(seed)), asks, servers)
    again, drawn = np.random.default_rng(seed), {}

    def queue(ask: Ask, i: int) -> float:
        if id(ask) not in drawn:
            room = [k for k, s in enumerate(servers) if s.alive and ask.input_tokens + 1 <= s.max_model_len]
            drawn[id(ask)] = set(again.permutation(np.array(room))[:d].tolist())
        return servers[i].running + servers[i].waiting if i in drawn[id(ask)] else math.inf

    assert got.tolist() == place_plainly(asks, servers, queue)


def test_power_of_all_is_the_shortest_queue_and_power_of_one_is_random() -> None:
    servers = [Server(0, 0.0, 0.0, 64, 8192, running=r) for r in (5, 3, 0, 9)]
    asks = [Ask(10, 10, math.inf, [0.5], [5.0]) for _ in range(400)]
    every = place(FewQueues(PowerOfD(d=9), np.random.default_rng(0)), asks[:3], servers)
    assert every.tolist() == [2, 2, 2]
    one = place(FewQueues(PowerOfD(d=1), np.random.default_rng(0)), asks, servers)
    assert min(Counter(one.tolist()).values()) > 70
    assert one.tolist() == place(FewQueues(PowerOfD(d=1), np.random.default_rng(0)), asks, servers).tolist()
    assert one.tolist() != place(FewQueues(PowerOfD(d=1), np.random.default_rng(1)), asks, servers).tolist()


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS, power=st.sampled_from([0.0, 1.0, 2.0]))
def test_lmdeploy_takes_the_fewest_unfinished_for_the_speed(seed: int, power: float) -> None:
    rng, servers, asks = scene(seed)
    speed = random_speeds(rng, len(servers)).requests_per_s
    score = UnfinishedForSpeed(LmDeploy(speed_power=power), speed, rng)
    shape, state = shape_of(servers), state_of(servers)
    policy = ScoredDispatch(Fixed(ANY_MODEL), score, shape)
    unfinished = [0] * len(servers)
    for _ in range(3):
        got = policy.assign(np.arange(len(asks)), table_of(asks), view_of(servers, len(asks)), state).instance
        for ask, i in zip(asks, got.tolist(), strict=True):
            room = [k for k, s in enumerate(servers) if s.alive and ask.input_tokens + 1 <= s.max_model_len]
            load = {k: unfinished[k] / float(speed[k]) ** power for k in room}
            assert (i in room and load[i] == min(load.values())) if room else i == -1
            if room:
                unfinished[i] += 1
        ended = [i for i, n in enumerate(unfinished) for _ in range(n // 2)]
        policy.learn(served(ended, [1.0] * len(ended)))
        for i in ended:
            unfinished[i] -= 1


def test_lmdeploy_breaks_ties_at_random() -> None:
    servers = [Server(0, 0.0, 0.0, 64, 8192) for _ in range(4)]
    firsts = [
        place(
            UnfinishedForSpeed(LmDeploy(), np.ones(4), np.random.default_rng(seed)),
            [Ask(10, 10, math.inf, [0.5], [5.0])],
            servers,
        )[0]
        for seed in range(40)
    ]
    assert set(firsts) == {0, 1, 2, 3}


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS, weight=st.sampled_from([0.1, 0.3, 1.0]))
def test_ewma_latency_follows_the_average_of_what_came_back(seed: int, weight: float) -> None:
    rng, servers, asks = scene(seed)
    score = PastTtft(EwmaLatency(ewma_weight=weight), len(servers))
    average: dict[int, float] = {}
    for _ in range(3):
        heard = [int(i) for i in rng.integers(0, len(servers), 4)]
        ttft = [float(t) for t in rng.uniform(0.1, 2.0, 4)]
        score.learn(served(heard, ttft))
        for i, value in zip(heard, ttft, strict=True):
            average[i] = (1 - weight) * average[i] + weight * value if i in average else value
        one = next(priced(np.arange(1), table_of(asks), view_of(servers, 1), shape_of(servers)))
        told = score.score(one, np.ones(len(servers), dtype=np.bool_), state_of(servers))
        assert [told[i] for i in average] == pytest.approx(list(average.values()))
        got = place(score, asks, servers)
        lowest = {i: float(told[i]) for i in range(len(servers))}
        expected = place_plainly(asks, copy.deepcopy(servers), by_instance(lowest))
        assert got.tolist() == expected
        untried = [i for i in range(len(servers)) if i not in average]
        assert all(lowest[i] == -math.inf for i in untried)


@pytest.mark.parametrize("model", [0, 1])
def test_a_routers_choice_of_model_is_kept(model: int) -> None:
    servers = [Server(m, 1e-7, 1e-7, 64, 8192, running=9 * m) for m in (0, 0, 1, 1)]
    asks = [Ask(10, 10, math.inf, [0.5, 0.5], [5.0, 5.0]) for _ in range(8)]
    speeds = Speeds(np.ones(4), np.ones(4), np.ones(4), np.ones(4))
    got = place(BacklogSeconds(LeastWork(), speeds), asks, servers, model=model)
    assert Counter(got.tolist()) == {2 * model: 4, 2 * model + 1: 4}
