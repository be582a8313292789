"""Dispatchers that look into snapshots or learn from answers, against plain readings."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.config.dispatch import Mooncake, PredictedLatency, VllmSr
from rbx.engine import snapshot_columns as snap
from rbx.heads.trees import predict_rows
from rbx.policy.ask import asks as asks_of
from rbx.policy.dispatchers.mooncake import PromptSeconds
from rbx.policy.dispatchers.predicted_latency import Headroom
from rbx.policy.dispatchers.quantile_trees import fit_quantile
from rbx.policy.dispatchers.vllm_sr import ModelPercentiles
from rbx.policy.routers import ANY_MODEL, Fixed
from rbx.policy.scored import ScoredDispatch
from rbx.policy.view import PoolView, Served
from tests.heads.bea_states import random_moment
from tests.policy.algorithm1 import Ask, Server
from tests.policy.plain_dispatch import place_plainly
from tests.policy.scenes import shape_of, state_of, table_of, telemetry_of, view_of

SEEDS = st.integers(0, 2**31)
PROMPT = Ask(50, 10, math.inf, [0.5] * 4, [5.0] * 4)
EVERY = np.ones(4, dtype=bool)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, share=st.sampled_from([0.0, 1.0]))
def test_mooncake_sums_the_prompts_in_line(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    moments = [random_moment(rng, exact=False) for _ in range(4)]
    servers = [Server(0, 0.0, 0.0, 64, 8192) for _ in moments]
    asks = [Ask(int(rng.integers(1, 300)), 10, math.inf, [0.5], [5.0]) for _ in range(6)]
    prices = [moment.snapshot.profile.coefficients.as_b for moment in moments]

    def prompt_s(i: int, tokens: int, after: int) -> float:
        b0, per_token, _, _, squared, cross = prices[i]
        return share * b0 + per_token * tokens + squared * tokens**2 + cross * tokens * after

    line_s = [0.0] * 4
    for i, moment in enumerate(moments):
        for k, row in enumerate(moment.snapshot.requests.tolist()):
            known = row[snap.PROMPT] + row[snap.GENERATED]
            if k >= moment.snapshot.running:
                line_s[i] += prompt_s(i, known - row[snap.CACHED], row[snap.CACHED])
            elif row[snap.PREFILLING]:
                line_s[i] += prompt_s(i, known - row[snap.COMPUTED], row[snap.COMPUTED])
        for row in moment.unseen.requests.tolist():
            line_s[i] += prompt_s(i, row[snap.PROMPT] - row[snap.CACHED], row[snap.CACHED])
    score = PromptSeconds(Mooncake(step_share=share), tuple(m.snapshot.profile for m in moments))
    snapshots, unseen = tuple(m.snapshot for m in moments), tuple(m.unseen for m in moments)
    view = PoolView(0.0, 0.0, 0.0, np.zeros(6), telemetry_of(servers), snapshots, unseen)
    score.look(view, state_of(servers))
    table, every = table_of(asks), np.ones(4, dtype=bool)
    for k, ask in enumerate(asks_of(np.arange(6), table, view, shape_of(servers))):
        expected = [line_s[i] + prompt_s(i, asks[k].input_tokens, 0) for i in range(4)]
        assert score.score(ask, every, state_of(servers)) == pytest.approx(expected, rel=1e-9)
        goes_to = int(rng.integers(4))
        score.book(ask, goes_to)
        line_s[goes_to] += prompt_s(goes_to, asks[k].input_tokens, 0)


def answers(rows: list[tuple[int, float, int, float]], request: list[int] | None = None) -> Served:
    """(instance, TTFT, output tokens, seconds of decoding) for requests that arrived at 0."""
    instance, ttft_s, tokens, decode_s = (list(column) for column in zip(*rows, strict=True))
    first_s = np.array(ttft_s, dtype=np.float64)
    return Served(
        request=np.arange(len(rows)) if request is None else np.array(request),
        instance=np.array(instance),
        input_tokens=np.full(len(rows), 10),
        output_tokens=np.array(tokens),
        arrived_s=np.zeros(len(rows)),
        first_token_s=first_s,
        done_s=first_s + np.array(decode_s),
    )


def three_models() -> list[Server]:
    return [Server(model, 0.0, 0.0, 64, 8192) for model in (0, 1, 1, 2)]


def level(values: list[float], quantile: float, config: VllmSr) -> float | None:
    if not values:
        return None
    if len(values) < config.least_samples:
        average = values[0]
        for value in values[1:]:
            average = (1 - config.ewma_weight) * average + config.ewma_weight * value
        return average
    ordered = sorted(values[-config.window :])
    at = quantile * (len(ordered) - 1)
    low = int(at)
    return ordered[low] + (at - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


@settings(max_examples=150, deadline=None)
@given(seed=SEEDS, window=st.sampled_from([4, 1000]), heard_of=st.sampled_from([(), (0,), (0, 2), (0, 1, 2)]))
def test_vllm_sr_compares_the_percentiles_of_the_models(
    seed: int, window: int, heard_of: tuple[int, ...]
) -> None:
    rng, config = np.random.default_rng(seed), VllmSr(window=window)
    servers = three_models()
    score = ModelPercentiles(config, shape_of(servers).model)
    ttft: dict[int, list[float]] = {0: [], 1: [], 2: []}
    tpot: dict[int, list[float]] = {0: [], 1: [], 2: []}
    for _ in range(int(rng.integers(1, 4)) if heard_of else 0):
        rows = []
        for model in rng.choice(heard_of, int(rng.integers(1, 6))).tolist():
            tokens, seconds = int(rng.integers(1, 9)), float(rng.uniform(0.1, 1.0))
            instance = int(rng.choice([i for i, s in enumerate(servers) if s.model == model]))
            rows.append((instance, float(rng.uniform(0.1, 2.0)), tokens, seconds))
            ttft[model].append(rows[-1][1])
            if tokens > 1:
                tpot[model].append(seconds / (tokens - 1))
        score.learn(answers(rows))
    levels = [
        {m: v for m in range(3) if (v := level(seen[m], q, config)) is not None}
        for seen, q in ((ttft, 0.95), (tpot, 0.9))
    ]
    value: dict[int, float] = {}
    for model in range(3):
        ratios = [known[model] / min(known.values()) for known in levels if model in known]
        value[model] = sum(ratios) / len(ratios) if ratios else math.inf
    if all(math.isinf(v) for v in value.values()):
        value = {0: 0.0, 1: 1.0, 2: 2.0}
    policy = ScoredDispatch(Fixed(ANY_MODEL), score, shape_of(servers))
    asks = [Ask(10, 10, math.inf, [0.5] * 3, [5.0] * 3) for _ in range(6)]
    got = policy.assign(np.arange(6), table_of(asks), view_of(servers, 6), state_of(servers)).instance
    told = {round(v, 9): m for m, v in value.items()}
    assert len(told) == len(set(value.values()))
    expected = place_plainly(asks, servers, lambda _, i: round(value[servers[i].model], 9))
    assert got.tolist() == expected


def test_vllm_sr_keeps_to_the_first_model_unless_it_warms_up() -> None:
    asks = [Ask(10, 10, math.inf, [0.5] * 3, [5.0] * 3) for _ in range(12)]

    def models(config: VllmSr) -> list[int]:
        servers = three_models()
        policy = ScoredDispatch(
            Fixed(ANY_MODEL), ModelPercentiles(config, shape_of(servers).model), shape_of(servers)
        )
        view, state = view_of(servers, 12), state_of(servers)
        first = policy.assign(np.arange(12), table_of(asks), view, state).instance
        policy.learn(answers([(int(i), 1.0 if i == 0 else 0.5, 9, 0.5) for i in first]))
        second = policy.assign(np.arange(12), table_of(asks), view, state).instance
        return [servers[int(i)].model for i in (*first, *second)]

    assert models(VllmSr()) == [0] * 24
    warm = models(VllmSr(warm_up_requests=4))
    assert sorted(warm[:12]) == [0] * 4 + [1] * 4 + [2] * 4
    assert 0 not in warm[12:]


def test_quantile_trees_are_xgboosts_and_the_same_every_time() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 1.0, (600, 4))
    y = x[:, 0] + rng.exponential(1.0, 600)
    trees = fit_quantile(x, y, 0.9, 40, 4)
    again = fit_quantile(x, y, 0.9, 40, 4)
    answer = predict_rows(trees, x, np.zeros(600, dtype=np.int64))
    assert np.mean(y <= answer) == pytest.approx(0.9, abs=0.04)
    for one, other in zip(trees, again, strict=True):
        np.testing.assert_array_equal(one, other)
    parameters = {"objective": "reg:quantileerror", "quantile_alpha": 0.9, "tree_method": "hist"}
    parameters |= {"max_depth": 4, "eta": 0.15, "min_child_weight": 5, "nthread": 1, "seed": 0}
    booster = xgboost.train(parameters, xgboost.DMatrix(x, label=y), 40)
    assert answer == pytest.approx(booster.predict(xgboost.DMatrix(x)), rel=1e-5)


def trained(config: PredictedLatency, ttft_s: Callable[[int, int], float]) -> Headroom:
    """Has placed requests on four instances under random loads; TTFT by (instance, running there)."""
    servers = [Server(tier, 0.0, 0.0, 64, 8192) for tier in range(4)]
    rng, n, shape = np.random.default_rng(1), config.retrain_every, shape_of(servers)
    score, view = Headroom(config, shape.tier), view_of(servers, n)
    rows = []
    for ask in asks_of(np.arange(n), table_of([PROMPT] * n), view, shape):
        state, i = state_of(servers), int(rng.integers(4))
        state.running[:] = rng.integers(0, 20, 4)
        score.look(view, state)
        assert score.score(ask, EVERY, state).tolist() == state.running.tolist()  # the shortest queue
        score.book(ask, i)
        load, noise = int(state.running[i]), float(rng.exponential(0.01))
        # Two gaps between three tokens: 1 ms for each pair of requests. Quantile trees find no split
        # without noise.
        rows.append((i, ttft_s(i, load) + noise, 3, 2 * (0.001 * load**2 + noise / 10)))
    score.learn(answers(rows))
    return score


def values(score: Headroom, running: list[int], target_s: float) -> list[float]:
    servers = [Server(tier, 0.0, 0.0, 64, 8192, running=r) for tier, r in enumerate(running)]
    table = table_of([PROMPT])._replace(ttft_target_s=np.array([target_s]))
    view, state = view_of(servers, 1), state_of(servers)
    score.look(view, state)
    (ask,) = asks_of(np.zeros(1, dtype=np.int64), table, view, shape_of(servers))
    told: list[float] = score.score(ask, EVERY, state).tolist()
    return told


def pick(score: Headroom, running: list[int], target_s: float) -> int:
    return int(np.argmin(values(score, running, target_s)))


def by_load(_: int, running: int) -> float:
    return 0.1 * running


def test_predicted_latency_packs_under_the_target_and_flees_above_it() -> None:
    loads = [3, 9, 15, 18]
    least = trained(PredictedLatency(retrain_every=600), by_load)
    most = trained(PredictedLatency(retrain_every=600, headroom="most"), by_load)
    assert [pick(least, loads, target_s) for target_s in (1.25, 1.65, 0.05, math.inf)] == [1, 2, 0, 0]
    assert [pick(most, loads, target_s) for target_s in (1.25, 1.65, 0.05, math.inf)] == [0, 0, 0, 0]


def test_a_target_for_tpot_narrows_the_choice() -> None:
    loads = [3, 9, 15, 18]
    assert pick(trained(PredictedLatency(retrain_every=600), by_load), loads, 1.65) == 2
    config = PredictedLatency(retrain_every=600, tpot_target_s=0.05)
    assert pick(trained(config, by_load), loads, 1.65) == 0


def test_only_a_model_that_is_told_the_tier_can_tell_the_tiers_apart() -> None:
    def by_instance(i: int, _: int) -> float:
        return (1.0, 0.2, 0.6, 0.9)[i]

    told = trained(PredictedLatency(retrain_every=600, by_tier=True, headroom="most"), by_instance)
    blind = trained(PredictedLatency(retrain_every=600, headroom="most"), by_instance)
    assert pick(told, [5, 5, 5, 5], 2.0) == 1
    assert len(set(values(told, [5, 5, 5, 5], 2.0))) == 4
    assert len(set(values(blind, [5, 5, 5, 5], 2.0))) == 1
