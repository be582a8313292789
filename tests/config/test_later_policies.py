"""Plug-ins, references, category routing and tie-breaks: in files and back, and cells of old left alone."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from rbx.config.policy import PolicySpec, RouteBalancePolicy, RoutedPolicy, SinglePolicy
from rbx.config.policy_spec import policy_spec

MODELS = ("small", "large")
SPECS: TypeAdapter[Any] = TypeAdapter(PolicySpec)
SINGLES: TypeAdapter[Any] = TypeAdapter(SinglePolicy)
URL = "http://127.0.0.1:8080"

LABELS: list[tuple[dict[str, Any], list[str]]] = [
    (
        {
            "kind": "plugin",
            "name": "mine",
            "options": [{"slack": 0.1, "of": ["a", 2]}, {}],
            "dispatch": ["random"],
        },
        ['mine of=["a", 2] slack=0.1/random', "mine/random"],
    ),
    ({"kind": "plugin", "name": "mine", "options": {"word": "x\x1b[31m"}}, ['mine word="x\\u001b[31m"']),
    (
        {"kind": "plugin", "name": "mine", "batched": [True, False], "filter": [None, "budget"]},
        ["mine", "mine unbatched", "mine | budget", "mine unbatched | budget"],
    ),
    (
        {"kind": "plugin", "name": "mine", "dispatch": [{"kind": "power-of-d", "d": [2, 3]}]},
        ["mine/power-of-d", "mine/power-of-d d=3"],
    ),
    (
        {"kind": "oracle", "cost_weight_per_usd": [None, 500.0]},
        ["oracle (true labels)/shortest-queue", "oracle (true labels) λ500/shortest-queue"],
    ),
    ({"kind": "source-best", "dispatch": ["random"]}, ["source-best/random"]),
    (
        {"kind": "semantic-router", "threshold": [0.0, 0.6]},
        ["semantic-router t0/shortest-queue", "semantic-router t0.6/shortest-queue"],
    ),
    (
        {"kind": "vllm-sr", "url": URL, "models": {"math": "small"}, "threshold": [None, 0.5]},
        ["vllm-sr/shortest-queue", "vllm-sr t0.5/shortest-queue"],
    ),
    ({"kind": "vllm-sr", "url": URL, "default_model": "large", "timeout_s": 0.5}, ["vllm-sr/shortest-queue"]),
    (
        {"kind": "routebalance", "weights": [[0.5, 0.0, 0.5]], "tie_break": ["queue", "latency"]},
        ["rb q0.50 l0.00 c0.50", "rb q0.50 l0.00 c0.50 ties by latency"],
    ),
]


@pytest.mark.parametrize(("entry", "labels"), LABELS, ids=lambda each: str(each)[:40])
def test_entries_expand_and_each_policy_comes_back_by_file_and_by_record(
    entry: dict[str, Any], labels: list[str]
) -> None:
    singles = list(SPECS.validate_python(entry).expand(MODELS))
    assert [single.label for single in singles] == labels
    for single in singles:
        assert SINGLES.validate_python(single.model_dump(mode="json")) == single
        assert list(SPECS.validate_python(policy_spec(single)).expand(MODELS)) == [single]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"kind": "plugin", "name": "mine", "options": {"at": float("nan")}}, "finite"),
        ({"kind": "plugin", "name": "mine", "options": {"api_key": "sesame"}}, "secret"),
        ({"kind": "plugin", "name": "mine", "options": []}, "at least 1"),
        ({"kind": "plugin", "name": "../mine"}, "pattern"),
        ({"kind": "plugin"}, "name"),
        ({"kind": "oracle", "cost_weight_per_usd": [-1.0]}, "greater than or equal"),
        ({"kind": "semantic-router", "threshold": [1.5]}, "less than or equal"),
        ({"kind": "vllm-sr", "url": "http://user:word@there"}, "no user"),
        ({"kind": "vllm-sr", "url": URL, "models": {}}, "at least 1"),
        ({"kind": "vllm-sr", "url": URL, "timeout_s": 0.0}, "greater than 0"),
        ({"kind": "routebalance", "weights": [[1.0, 0.0, 0.0]], "tie_break": ["cost"]}, "queue"),
    ],
)
def test_what_does_not_hold_is_refused(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        SPECS.validate_python(entry)


def test_a_model_that_the_pool_lacks_is_named() -> None:
    spec = SPECS.validate_python({"kind": "vllm-sr", "url": URL, "models": {"math": "huge"}})
    with pytest.raises(ValueError, match="the pool has no huge; it has small, large"):
        list(spec.expand(MODELS))


def test_what_cells_of_earlier_versions_were_identified_by_has_no_new_field() -> None:
    balanced = RouteBalancePolicy(weights=(0.5, 0.25, 0.25))
    assert balanced.model_dump(mode="json") == {
        "kind": "routebalance",
        "weights": [0.5, 0.25, 0.25],
        "quality": "raw",
        "latency": "xgboost",
    }
    routed = RoutedPolicy(router="avengers-pro", dispatch="random", performance_weight=0.8)
    assert routed.model_dump(mode="json") == {
        "kind": "routed",
        "router": "avengers-pro",
        "dispatch": "random",
        "model": None,
        "shares": None,
        "performance_weight": 0.8,
        "threshold": None,
        "min_quality": None,
        "mean_budget_usd": None,
        "batched": True,
    }
