"""Routers that read the prompt: against their definitions, and PORT's shadow prices against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.policy.prompt_routers import (
    FIRST_REQUESTS,
    BudgetedOnline,
    CheapestGoodEnough,
    HighestScore,
    budget_worth,
    model_prices,
)
from rbx.policy.request_table import RequestTable
from tests.policy.algorithm1 import Server
from tests.policy.scenes import shape_of

PRICE_IN = np.array([1e-7, 2e-7, 4e-7])
PRICE_OUT = np.array([1e-7, 3e-7, 5e-7])


def table(n: int, seed: int) -> RequestTable:
    rng = np.random.default_rng(seed)
    return RequestTable(
        input_tokens=rng.integers(1, 500, n),
        max_tokens=rng.integers(1, 400, n),
        budget_usd=np.full(n, np.inf),
        quality=rng.random((n, 3)),
        length_tokens=rng.uniform(1, 600, (n, 3)),
        ttft_target_s=np.full(n, np.inf),
        router_score=rng.random((n, 3)),
    ).checked()


@given(st.integers(0, 10**6))
def test_the_highest_score_wins_whoever_gave_it(seed: int) -> None:
    requests = table(20, seed)
    rows = np.random.default_rng(seed).permutation(20)[:7]
    by_heads = HighestScore(trained=False).choose(rows, requests)
    by_router = HighestScore(trained=True).choose(rows, requests)
    for k, row in enumerate(rows.tolist()):
        assert requests.quality[row, by_heads[k]] == max(requests.quality[row])
        assert requests.router_score[row, by_router[k]] == max(requests.router_score[row])


@given(st.integers(0, 10**6), st.floats(0.0, 1.0))
def test_the_cheapest_that_is_good_enough_else_the_best(seed: int, bound: float) -> None:
    requests = table(20, seed)
    chosen = CheapestGoodEnough(bound, PRICE_IN, PRICE_OUT).choose(np.arange(20), requests)
    for row, model in enumerate(chosen.tolist()):
        cost = [
            requests.input_tokens[row] * PRICE_IN[m]
            + min(requests.length_tokens[row, m], requests.max_tokens[row]) * PRICE_OUT[m]
            for m in range(3)
        ]
        enough = [m for m in range(3) if requests.quality[row, m] >= bound]
        if enough:
            assert cost[model] == pytest.approx(min(cost[m] for m in enough))
            assert model in enough
        else:
            assert requests.quality[row, model] == max(requests.quality[row])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 2.0))
def test_shadow_prices_minimise_the_dual(seed: int, tightness: float) -> None:
    """γ is the minimum of Σ_m γ·budget + Σ max(0, max_m q̂ − γ·ĉ), which is convex: look around it."""
    rng = np.random.default_rng(seed)
    quality, cost = rng.random((30, 3)), rng.uniform(0.5, 2.0, (30, 3))
    budget = float(tightness * cost.mean())
    worth = budget_worth(quality, cost, budget)
    share = (quality.mean(axis=0) / cost.mean(axis=0)) / (quality.mean(axis=0) / cost.mean(axis=0)).sum()

    def dual(at: np.ndarray) -> float:
        gain = np.maximum(0.0, (quality - at * cost).max(axis=1)).sum()
        return float(gain + (at * share * budget * len(quality)).sum())

    assert (worth >= -1e-12).all()
    least = dual(worth)
    for step in itertools.product((-1e-3, 0.0, 1e-3), repeat=3):
        assert dual(np.maximum(0.0, worth + np.array(step))) >= least - 1e-7


def test_what_comes_first_teaches_and_the_rest_keeps_to_the_budget() -> None:
    n = 4000
    requests = table(n, seed=3)
    price = np.array([1e-7, 1e-6, 5e-6])
    budget_usd = 1e-4
    router = BudgetedOnline(budget_usd, price, price, np.random.default_rng(0))
    first = router.choose(np.arange(FIRST_REQUESTS), requests)
    assert set(first.tolist()) == {0, 1, 2}
    assert router.worth is not None
    rest = np.arange(FIRST_REQUESTS, n)
    chosen = router.choose(rest, requests)
    length = np.minimum(requests.length_tokens[rest], requests.max_tokens[rest][:, None])
    cost = (requests.input_tokens[rest][:, None] * price + length * price)[np.arange(len(rest)), chosen]
    quality = requests.quality[rest]
    assert cost.mean() < 1.15 * budget_usd
    always_cheapest = quality[:, 0].mean()
    assert quality[np.arange(len(rest)), chosen].mean() > always_cheapest + 0.03


@pytest.mark.parametrize("budget_usd", [1e3, 1e30, 1e300, 1e308])
@pytest.mark.parametrize("scale", [0.0, 1e-300, 1e-9, 1.0])
def test_a_budget_beyond_all_costs_makes_money_worthless(budget_usd: float, scale: float) -> None:
    rng = np.random.default_rng(0)
    quality, cost = rng.random((30, 3)), scale * rng.uniform(0.5, 2.0, (30, 3))
    quality[:, 2] = 0.0
    assert np.array_equal(np.abs(budget_worth(quality, cost, budget_usd)), np.zeros(3))


def test_with_money_for_everything_the_best_model_is_taken() -> None:
    requests = table(2 * FIRST_REQUESTS, seed=4)
    router = BudgetedOnline(1.0, PRICE_IN, PRICE_OUT, np.random.default_rng(0))
    router.choose(np.arange(FIRST_REQUESTS), requests)
    rest = np.arange(FIRST_REQUESTS, 2 * FIRST_REQUESTS)
    assert np.array_equal(router.choose(rest, requests), requests.quality[rest].argmax(axis=1))


def test_prices_of_a_model_are_those_of_one_tier() -> None:
    servers = [
        Server(0, 2e-6, 4e-6, 4, 8192),
        Server(0, 1e-6, 5e-6, 4, 8192),
        Server(1, 9e-6, 3e-6, 4, 8192),
        Server(1, 8e-6, 3e-6, 4, 8192),
    ]
    price_in, price_out = model_prices(shape_of(servers), 2)
    assert price_in.tolist() == [2e-6, 8e-6]
    assert price_out.tolist() == [4e-6, 3e-6]
