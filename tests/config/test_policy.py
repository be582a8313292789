from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from rbx.config.policy import WEIGHT_LISTS, PolicySpec, SinglePolicy

SPEC: TypeAdapter[Any] = TypeAdapter(PolicySpec)
SINGLE: TypeAdapter[Any] = TypeAdapter(SinglePolicy)
MODELS = ("small", "large")


def labels(**spec: object) -> list[str]:
    return [policy.label for policy in SPEC.validate_python(spec).expand(MODELS)]


def test_lists_multiply() -> None:
    spec = {
        "kind": "routebalance",
        "weights": [[0.8, 0.1, 0.1], [0, 1, 0]],
        "quality": ["raw", "minmax"],
        "latency": ["xgboost", "prior"],
    }
    names = labels(**spec)
    assert len(names) == len(set(names)) == 8
    assert names[0] == "rb q0.80 l0.10 c0.10"
    assert "rb q0.00 l1.00 c0.00 minmax prior" in names


@pytest.mark.parametrize("budget_usd", [1.0e308, 1e7, 0.0, -1.0, float("inf"), float("nan")])
def test_a_mean_budget_is_bounded(budget_usd: float) -> None:
    assert labels(kind="port", mean_budget_usd=[1e-6, 1e6])
    with pytest.raises(ValidationError, match="mean_budget_usd"):
        labels(kind="port", mean_budget_usd=[budget_usd])
    with pytest.raises(ValidationError, match="mean_budget_usd"):
        SINGLE.validate_python(
            {"kind": "routed", "router": "port", "dispatch": "random", "mean_budget_usd": budget_usd}
        )


def test_paper_16_has_16_distinct_tuples_on_the_simplex_and_the_five_published_ones() -> None:
    tuples = WEIGHT_LISTS["paper-16"]
    assert len(set(tuples)) == 16
    assert all(sum(weights) == pytest.approx(1.0) and min(weights) >= 0 for weights in tuples)
    rounded = {tuple(round(weight, 2) for weight in weights) for weights in tuples}
    assert {(0.33, 0.33, 0.33), (0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.1, 0.1, 0.8), (0.5, 0.3, 0.2)} <= rounded
    names = labels(kind="routebalance", weights="paper-16")
    assert len(set(names)) == 16


def test_thirds_with_two_decimals_pass_and_are_normalised() -> None:
    (policy,) = SPEC.validate_python({"kind": "routebalance", "weights": [[0.33, 0.33, 0.33]]}).expand(MODELS)
    assert policy.weights == pytest.approx((1 / 3, 1 / 3, 1 / 3))


@pytest.mark.parametrize(
    "weights",
    [
        [[0.5, 0.5, 0.5]],
        [[0.5, 0.3, 0.1]],
        [[0, 0, 0]],
        [[1.2, -0.1, -0.1]],
        [[float("nan"), 0.5, 0.5]],
        [[float("inf"), 0, 0]],
        [[0.5, 0.5]],
        [],
        "paper-17",
    ],
)
def test_weights_off_the_simplex_are_refused(weights: object) -> None:
    with pytest.raises(ValidationError):
        SPEC.validate_python({"kind": "routebalance", "weights": weights})


def test_always_star_stands_for_each_model_in_turn() -> None:
    assert labels(kind="always", model="*") == ["always:small/shortest-queue", "always:large/shortest-queue"]
    assert labels(kind="always", model="large", dispatch=["random", "round-robin"]) == [
        "always:large/random",
        "always:large/round-robin",
    ]


def test_plain_baselines_expand_to_one_policy_a_dispatcher() -> None:
    assert labels(kind="passthrough") == [
        "passthrough/round-robin",
        "passthrough/shortest-queue",
        "passthrough/random",
    ]
    assert labels(kind="random") == ["random/shortest-queue"]
    assert labels(kind="mix", shares={"small": 3, "large": 1}) == ["mix:small=75%,large=25%/shortest-queue"]


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "always", "model": "huge"},
        {"kind": "mix", "shares": {"small": 1, "huge": 1}},
    ],
)
def test_models_that_the_pool_lacks_are_refused_by_name(spec: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="huge"):
        list(SPEC.validate_python(spec).expand(MODELS))


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "mix", "shares": {"small": 0, "large": 0}},
        {"kind": "mix", "shares": {"small": -1, "large": 2}},
        {"kind": "passthrough", "dispatch": ["fastest"]},
        {"kind": "oracle", "deployment": ["serial"]},
        {"kind": "random", "seed": 3},
    ],
)
def test_specs_that_make_no_sense_are_refused(spec: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SPEC.validate_python(spec)


def test_an_expanded_policy_survives_its_own_json() -> None:
    for spec in (
        {"kind": "routebalance", "weights": "paper-16", "quality": ["raw", "minmax"]},
        {"kind": "mix", "shares": {"small": 0.2, "large": 0.8}},
        {"kind": "always", "model": "*"},
    ):
        for policy in SPEC.validate_python(spec).expand(MODELS):
            again = SINGLE.validate_python(policy.model_dump(mode="json"))
            assert again == policy
            assert again.label == policy.label
