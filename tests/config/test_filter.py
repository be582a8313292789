"""Filters in a file: names, mappings, lists that multiply, labels that tell them apart."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from rbx.config.filter import BudgetFilter, CdfFilter, QlmFilter
from rbx.config.policy import PolicySpec

SPECS: TypeAdapter[Any] = TypeAdapter(PolicySpec)


def expanded(**fields: Any) -> list[Any]:
    return list(SPECS.validate_python(fields).expand(("small", "large")))


def test_a_list_multiplies_and_null_is_the_policy_without_one() -> None:
    found = expanded(
        kind="avengers-pro",
        performance_weight=[0.5, 0.8],
        dispatch=["random", "shortest-queue"],
        filter=[None, "cdf", {"kind": "budget", "on_empty": "shed"}],
    )
    assert len(found) == len({policy.label for policy in found}) == 12
    rules = [policy.filter for policy in found]
    assert rules.count(None) == rules.count(CdfFilter()) == rules.count(BudgetFilter(on_empty="shed")) == 4


@pytest.mark.parametrize(
    ("rule", "label"),
    [
        (None, "rb q1.00 l0.00 c0.00"),
        ("cdf", "rb q1.00 l0.00 c0.00 | cdf"),
        ({"kind": "cdf", "theta": 0.9, "mode": "hard"}, "rb q1.00 l0.00 c0.00 | cdf θ0.9 hard"),
        ({"kind": "qlm", "confidence": 0.99, "ttft": "bea"}, "rb q1.00 l0.00 c0.00 | qlm bea p0.99"),
        (
            {"kind": "slos-serve", "ttft_s": 0.5, "tpot_s": 0.05, "tpot": "prior", "on_empty": "shed"},
            "rb q1.00 l0.00 c0.00 | slos-serve else shed ttft≤0.5 tpot≤0.05 tpot prior",
        ),
        ({"kind": "timebill", "time_budget_s": 20.0}, "rb q1.00 l0.00 c0.00 | timebill ≤20 s"),
        ("budget", "rb q1.00 l0.00 c0.00 | budget"),
        ({"kind": "budget", "on_empty": "all"}, "rb q1.00 l0.00 c0.00 | budget else all"),
    ],
)
def test_labels_say_what_departs_from_the_defaults(rule: Any, label: str) -> None:
    (policy,) = expanded(kind="routebalance", weights=[[1.0, 0.0, 0.0]], filter=[rule])
    assert policy.label == label


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ("ctf", "known: cdf"),
        ({"kind": "budget", "ttft_s": 1.0}, "ttft_s"),
        ({"kind": "cdf", "theta": float("nan")}, "theta"),
        ({"kind": "cdf", "theta": -0.1}, "theta"),
        ({"kind": "qlm", "confidence": 1.0}, "confidence"),
        ({"kind": "qlm", "confidence": 0.4}, "confidence"),
        ({"kind": "slos-serve", "ttft_s": 0.0}, "ttft_s"),
        ({"kind": "timebill", "time_budget_s": float("inf")}, "time_budget_s"),
        ({"kind": "timebill", "time_budget_s": 20.0, "ttft_s": 1.0}, "leave ttft_s and tpot_s out"),
        ({"kind": "timebill", "time_budget_s": 20.0, "tpot_s": 0.1}, "leave ttft_s and tpot_s out"),
        ({"kind": "none", "on_empty": "shed"}, "on_empty"),
        ({"kind": "cdf", "on_empty": "best"}, "on_empty"),
        (["cdf"], "valid dictionary"),
    ],
)
def test_what_no_filter_could_mean_is_refused(rule: Any, named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        expanded(kind="passthrough", filter=[rule])
    with pytest.raises(ValidationError):
        expanded(kind="passthrough", filter=[])
    with pytest.raises(ValidationError):
        expanded(kind="external", filter=["budget"])


def test_who_asks_for_a_calibration_says_so() -> None:
    policies = expanded(kind="score", filter=[None, "cdf", "qlm", "slos-serve", "budget"])
    assert [policy.asks_calibration for policy in policies] == [False, True, True, False, False]
    assert QlmFilter().reads_lengths is False
