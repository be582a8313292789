from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.errors import BundleError
from rbx.heads.routers.avengers_pro import CLUSTERS, AvengersPro, train
from rbx.heads.routers.head import AskedPrompts
from tests.heads.routers.planted import planted


def by_hand(head: AvengersPro, embedding: list[float]) -> list[float]:
    """Scores of one prompt, step by step as the paper tells it."""
    distances = [
        1.0 - sum(a * b for a, b in zip(centre, embedding, strict=True)) for centre in head.centres.tolist()
    ]
    nearest = sorted(range(len(distances)), key=lambda k: distances[k])[: head.top_k]
    weights = [math.exp(-head.beta * distances[k]) for k in nearest]
    scores = [0.0] * len(head.models)
    for k, weight in zip(nearest, weights, strict=True):
        quality = head.quality[k].tolist()
        cost = [
            float(head.input_tokens[k] * paid_in + out * paid_out)
            for out, paid_in, paid_out in zip(
                head.output_tokens[k], head.price_in_usd, head.price_out_usd, strict=True
            )
        ]
        low, high = min(quality), max(quality)
        balance = [
            head.performance_weight * ((q - low) / (high - low) if high > low else 1.0)
            + (1.0 - head.performance_weight) * (1.0 - c / max(cost))
            for q, c in zip(quality, cost, strict=True)
        ]
        ranked = sorted(range(len(balance)), key=lambda m: (-balance[m], cost[m]))
        for rank, model in enumerate(ranked):
            scores[model] += weight / sum(weights) / (1.0 + rank)
    return scores


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 1.0), st.integers(1, 5))
def test_scores_follow_the_published_steps(seed: int, weight: float, top_k: int) -> None:
    rng = np.random.default_rng(seed)
    head = AvengersPro(
        models=("a", "b", "c", "d"),
        centres=rng.normal(size=(6, 5)),
        quality=rng.random((6, 4)),
        input_tokens=rng.random(6) * 500 + 1,
        output_tokens=rng.random((6, 4)) * 500 + 1,
        price_in_usd=rng.random(4) * 1e-6 + 1e-8,
        price_out_usd=rng.random(4) * 1e-6 + 1e-8,
        performance_weight=weight,
        top_k=top_k,
    )
    embeddings = rng.normal(size=(7, 5)).astype(np.float32)
    expected = [by_hand(head, row) for row in embeddings.astype(np.float64).tolist()]
    assert np.allclose(head.score(AskedPrompts([""] * 7, embeddings)), expected, atol=1e-12)


def test_the_number_of_clusters_is_chosen_on_held_out_prompts_and_told() -> None:
    head = train(planted(), seed=0)
    tried = head.described["held_out_utility"]
    assert [int(k) for k in tried] == [k for k in CLUSTERS if k <= 120]
    assert head.described["clusters"] == int(max(tried, key=lambda k: tried[k]))


def test_a_low_performance_weight_chooses_the_cheapest_model() -> None:
    task = planted()
    picked = train(task, seed=0).weighing(0.0).score(task.prompts).argmax(axis=1)
    assert set(picked.tolist()) == {0}


def test_new_prices_need_no_new_training() -> None:
    task = planted()
    head = train(task, seed=0).weighing(0.0)
    turned = head.priced(task.price_in_usd[::-1].copy(), task.price_out_usd[::-1].copy())
    assert set(turned.score(task.prompts).argmax(axis=1).tolist()) == {2}


def test_where_every_model_is_free_quality_alone_decides() -> None:
    task = planted()
    nothing = np.zeros(len(task.models))
    fitted_free = train(replace(task, price_in_usd=nothing, price_out_usd=nothing), seed=0)
    assert all(math.isfinite(value) for value in fitted_free.described["held_out_utility"].values())
    for head in (fitted_free, train(task, seed=0).priced(nothing, nothing)):
        best = head.quality.argmax(axis=1)
        assert len(set(best.tolist())) > 1
        assert (head.weighing(0.8).rank[np.arange(len(best)), best] == 0).all()


def test_a_weight_outside_the_unit_interval_is_refused() -> None:
    with pytest.raises(BundleError, match=r"\[0, 1\]"):
        train(planted(), seed=0).weighing(1.5)
