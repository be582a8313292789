"""The chain that is chosen, against asking model after model, prompt by prompt."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.errors import BundleError
from rbx.heads.routers.cascade.chain import LEVELS, Chain, Tried, best_tradeoff, best_within


def tried(seed: int, n: int = 40, m: int = 4) -> Tried:
    rng = np.random.default_rng(seed)
    score = (rng.random((n, m)) < np.linspace(0.3, 0.8, m)).astype(np.float64)
    answer_score = np.clip(score * 0.4 + rng.random((n, m)) * 0.6, 0.0, 1.0)
    return Tried(answer_score, score, rng.random((n, m)) * np.linspace(1.0, 8.0, m) * 1e-5)


def by_asking(known: Tried, models: tuple[int, ...], thresholds: tuple[float, ...]) -> tuple[float, float]:
    """Mean quality and cost of a chain, one prompt and one model at a time."""
    quality, cost = [], []
    for row in range(len(known.score)):
        paid = 0.0
        for at, model in enumerate(models):
            paid += known.cost_usd[row, model]
            if at == len(thresholds) or known.answer_score[row, model] >= thresholds[at]:
                quality.append(known.score[row, model])
                cost.append(paid)
                break
    return float(np.mean(quality)), float(np.mean(cost))


def all_chains(known: Tried) -> list[tuple[float, float]]:
    """Quality and cost of every list of up to three models in order of cost, at every pair of quantiles."""
    order = sorted(range(known.score.shape[1]), key=lambda m: known.cost_usd[:, m].mean())
    quantiles = [k / (LEVELS + 1) for k in range(1, LEVELS + 1)]
    found = []
    for length in (1, 2, 3):
        for models in itertools.combinations(order, length):
            axes = [np.unique(np.quantile(known.answer_score[:, m], quantiles)) for m in models[:-1]]
            found += [by_asking(known, models, thresholds) for thresholds in itertools.product(*axes)]
    return found


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(1e-5, 8e-5))
def test_no_chain_within_the_budget_is_better(seed: int, budget_usd: float) -> None:
    known = tried(seed, n=24, m=3)
    chain = best_within(known, budget_usd)
    quality, cost = by_asking(known, chain.models, chain.thresholds)
    assert (chain.quality, chain.cost_usd) == pytest.approx((quality, cost), rel=1e-9)
    affordable = [(q, c) for q, c in all_chains(known) if c <= budget_usd * (1 - 1e-9)]
    if affordable:
        assert quality >= max(q for q, _ in affordable) - 1e-12
        assert cost <= budget_usd * (1 + 1e-9)
    else:
        assert chain.models == (int(known.cost_usd.mean(axis=0).argmin()),)


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 3e4))
def test_no_chain_trades_quality_for_cost_better(seed: int, weight: float) -> None:
    known = tried(seed, n=24, m=3)
    chain = best_tradeoff(known, weight)
    quality, cost = by_asking(known, chain.models, chain.thresholds)
    assert quality - weight * cost >= max(q - weight * c for q, c in all_chains(known)) - 1e-9


def test_more_money_never_buys_less_and_the_extremes_are_single_models() -> None:
    known = tried(3, n=200)
    chains = [best_within(known, budget) for budget in np.linspace(1e-6, 1e-4, 25)]
    assert all(a.quality <= b.quality for a, b in itertools.pairwise(chains))
    assert chains[0].models == (0,)
    assert len(chains[-1].models) > 1
    assert chains[-1].quality > known.score.mean(axis=0).max()
    assert best_tradeoff(known, 1e9).models == (0,)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_who_is_asked_follows_from_each_answer_in_turn(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    models = tuple(rng.permutation(4)[:length].tolist())
    chain = Chain(models, tuple(rng.random(length - 1).tolist()), 0.0, 0.0)
    scores = rng.random((30, 4)).round(1)
    last, asked = chain.last_asked(scores), chain.asked(scores)
    for row in range(30):
        walked, model = [models[0]], models[0]
        while (following := chain.after(model, float(scores[row, model]))) is not None:
            model = following
            walked.append(model)
        assert last[row] == walked[-1]
        assert np.flatnonzero(asked[row]).tolist() == sorted(walked)
    assert Chain.of(chain.as_json()) == chain


def test_prompts_of_which_something_is_missing_do_not_count() -> None:
    known = tried(5, n=60)
    holed = Tried(known.answer_score.copy(), known.score.copy(), known.cost_usd.copy())
    holed.score[30:, 1] = np.nan
    whole = Tried(*(column[:30] for column in known))
    assert best_within(holed, 5e-5) == best_within(whole, 5e-5)
    holed.answer_score[10:, 2] = np.nan
    with pytest.raises(BundleError, match="only 10 training prompts"):
        best_within(holed, 5e-5)
