"""What each policy is in the comparison."""

from __future__ import annotations

from typing import Any

import pytest

from rbx.config.policy import BearPolicy, RouteBalancePolicy, RoutedPolicy
from rbx.report.ontime.role import role_of
from tests.report.sweeps import Policy


@pytest.mark.parametrize(
    ("policy", "words", "router"),
    [
        (BearPolicy(), "BEAR", "BEAR"),
        (BearPolicy(ttft="lps"), "variant", "hard/lps"),
        (BearPolicy(fallback="shed"), "variant", "bear shed"),
        (BearPolicy(true_lengths=True), "variant", "bear true lengths"),
        (BearPolicy(shuffled=True), "variant", "bear shuffled"),
        (BearPolicy(cost_weight_per_usd=100.0), "variant", "bear λ100"),
        (BearPolicy(rule="soft"), "variant", "bear soft δ0"),
        (BearPolicy(rule="soft", ttft=None), "baseline", "latency-agnostic"),
        (
            BearPolicy(rule="soft", ttft=None, cost_weight_per_usd=9.0),
            "baseline",
            "latency-agnostic",
        ),
        (RouteBalancePolicy(weights=(1.0, 0.0, 0.0)), "latency-aware baseline", "RouteBalance"),
        (
            RouteBalancePolicy(weights=(1.0, 0.0, 0.0), latency="bea"),
            "variant",
            "rb q1.00 l0.00 c0.00 bea",
        ),
        (RoutedPolicy(router="passthrough", dispatch="random"), "baseline", "passthrough/random"),
        (
            RoutedPolicy(router="oracle", dispatch="shortest-queue"),
            "reference",
            "oracle (true labels)/shortest-queue",
        ),
        (RoutedPolicy(router="source-best", dispatch="random"), "reference", "source-best/random"),
    ],
)
def test_roles_of_policies(policy: Policy, words: str, router: str) -> None:
    role = role_of(policy.model_dump(mode="json"), policy.label)
    assert (role.words, role.router) == (words, router)


@pytest.mark.parametrize(
    ("policy", "words", "router"),
    [
        ({"kind": "score", "tradeoff": 0.05}, "latency-aware baseline", "SCORE"),
        (
            {"kind": "routed", "router": "passthrough", "dispatch": {"kind": "vllm-sr", "window": 9}},
            "latency-aware baseline",
            "vLLM-SR",
        ),
        (
            {"kind": "routed", "router": "passthrough", "dispatch": {"kind": "mooncake"}},
            "latency-aware baseline",
            "Mooncake",
        ),
        ({"kind": "routed", "router": "passthrough", "dispatch": {"kind": "lmdeploy"}}, "baseline", "name"),
        ({"kind": "routed", "router": "always", "dispatch": {"kind": "mooncake"}}, "baseline", "name"),
        ({"kind": "something-new"}, "baseline", "name"),
        ({"kind": "routed", "router": "bear", "dispatch": "random"}, "baseline", "name"),
    ],
)
def test_roles_as_they_stand_in_a_manifest(policy: dict[str, Any], words: str, router: str) -> None:
    role = role_of(policy, "name")
    assert (role.words, role.router) == (words, router)


def test_a_label_alone_makes_no_bear() -> None:
    policy = RoutedPolicy(router="passthrough", dispatch="random").model_dump(mode="json")
    assert role_of(policy, "bear").kind == "baseline"
