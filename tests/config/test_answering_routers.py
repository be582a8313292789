"""BEST-Route and cascades in files and back."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from rbx.config.policy import PolicySpec, RoutedPolicy, SinglePolicy
from rbx.config.policy_spec import policy_spec

MODELS = ("small", "large")
SPECS: TypeAdapter[Any] = TypeAdapter(PolicySpec)
SINGLES: TypeAdapter[Any] = TypeAdapter(SinglePolicy)

LABELS: list[tuple[dict[str, Any], list[str]]] = [
    ({"kind": "best-route"}, ["best-route t0/shortest-queue"]),
    (
        {"kind": "best-route", "threshold": [0.0, 0.5], "fallback": "large", "dispatch": ["random"]},
        ["best-route t0/random", "best-route t0.5 else large/random"],
    ),
    (
        {"kind": "cascade", "mean_budget_usd": [3e-5], "cost_weight_per_usd": [0.0, 500.0]},
        ["cascade b$3e-05/shortest-queue", "cascade λ0/shortest-queue", "cascade λ500/shortest-queue"],
    ),
]


@pytest.mark.parametrize(("entry", "labels"), LABELS, ids=lambda each: str(each)[:40])
def test_entries_expand_and_each_policy_comes_back(entry: dict[str, Any], labels: list[str]) -> None:
    singles = list(SPECS.validate_python(entry).expand(MODELS))
    assert [single.label for single in singles] == labels
    for single in singles:
        assert SINGLES.validate_python(single.model_dump(mode="json")) == single
        assert list(SPECS.validate_python(policy_spec(single)).expand(MODELS)) == [single]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"kind": "best-route", "threshold": [1.5]}, "less than or equal"),
        ({"kind": "best-route", "threshold": []}, "at least 1"),
        ({"kind": "cascade"}, "give mean_budget_usd or cost_weight_per_usd"),
        ({"kind": "cascade", "mean_budget_usd": [0.0]}, "greater than 0"),
        ({"kind": "cascade", "mean_budget_usd": [1e-5], "deployment": [{"kind": "serial"}]}, "reads answers"),
        ({"kind": "cascade", "mean_budget_usd": [1e-5], "filter": ["budget"]}, "takes no filter"),
    ],
)
def test_what_does_not_hold_is_refused(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        SPECS.validate_python(entry)


def test_a_fallback_that_the_pool_lacks_is_named() -> None:
    spec = SPECS.validate_python({"kind": "best-route", "threshold": [0.5], "fallback": "huge"})
    with pytest.raises(ValueError, match="no model 'huge' to fall back on; it has small, large"):
        list(spec.expand(MODELS))


@pytest.mark.parametrize("threshold", [{}, {"threshold": [0.0]}])
def test_a_fallback_that_would_never_answer_is_refused(threshold: dict[str, list[float]]) -> None:
    with pytest.raises(ValidationError, match="give threshold, above 0"):
        SPECS.validate_python({"kind": "best-route", "fallback": "large", **threshold})


def test_cells_of_routers_without_a_fallback_keep_their_identity() -> None:
    plain = RoutedPolicy(router="linear", dispatch="shortest-queue")
    assert "fallback" not in plain.model_dump(mode="json")
