"""A single policy told in the words of a file stands for that policy and no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from rbx.config.base import read_yaml
from rbx.config.gateway import GatewayConfig
from rbx.config.policy import PolicySpec, RouteBalancePolicy, SinglePolicy
from rbx.config.policy_spec import policy_spec
from rbx.config.pool import load_pool

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("small", "large")
SPECS: TypeAdapter[Any] = TypeAdapter(PolicySpec)
EXAMPLES: list[dict[str, Any]] = [
    {
        "kind": "routebalance",
        "weights": "paper-16",
        "quality": ["raw", "minmax"],
        "latency": ["prior", "bea"],
    },
    {
        "kind": "bear",
        "ttft": ["bea", "lps"],
        "fallback": ["min-ttft", "sacrifice", "shed"],
        "safety_s": [0.0, 0.1],
    },
    {
        "kind": "bear",
        "rule": "soft",
        "ttft": ["bea", "lps-engine"],
        "delta_per_s": [0.0, 0.3],
        "shuffled": [True],
    },
    {"kind": "bear", "in_flight": [False], "step_time_scale": [0.5], "true_lengths": [True], "batched": True},
    {"kind": "bear", "ttft": ["prefill-throughput"], "throughput_scale": [2.0], "cost_weight_per_usd": 0.0},
    {"kind": "latency-agnostic", "cost_weight_per_usd": 12.5},
    {
        "kind": "score",
        "tradeoff": [0.0, 0.1],
        "decode_step": ["calibrated", "current"],
        "batched": [True, False],
    },
    {"kind": "passthrough"},
    {"kind": "always", "model": "*", "dispatch": ["random"], "batched": [False]},
    {"kind": "random"},
    {"kind": "mix", "shares": {"small": 3.0, "large": 0.0}},
    {"kind": "routebalance", "weights": [[0.5, 0.3, 0.2]], "filter": [None, "budget", "none"]},
    {"kind": "bear", "filter": [{"kind": "timebill", "time_budget_s": 9.0, "on_empty": "shed"}]},
    {"kind": "latency-agnostic", "filter": ["polyserve"]},
    {"kind": "score", "filter": [{"kind": "slos-serve", "ttft_s": 1.0, "tpot": "prior"}]},
    {
        "kind": "always",
        "model": "*",
        "filter": [{"kind": "cdf", "theta": 0.9, "mode": "hard", "ttft": "bea"}],
    },
    {"kind": "external", "name": "their router"},
]


def experiments() -> Iterator[tuple[str, dict[str, Any], tuple[str, ...]]]:
    for path in sorted((ROOT / "experiments").rglob("*.yaml")):
        data = read_yaml(path)
        for entry in data.get("policies", []):
            yield path.name, entry, load_pool(ROOT / data["pool"]).value.models


def same(one: SinglePolicy, other: SinglePolicy) -> bool:
    """Weights are made to sum to one at each reading, which may move their last digit."""
    if isinstance(one, RouteBalancePolicy) and isinstance(other, RouteBalancePolicy):
        return (
            one.weights == pytest.approx(other.weights, abs=1e-15)
            and one.model_copy(update={"weights": other.weights}) == other
        )
    return one == other


@pytest.mark.parametrize("entry", EXAMPLES, ids=lambda entry: str(entry["kind"]))
def test_every_policy_of_every_kind_comes_back(entry: dict[str, Any]) -> None:
    singles = list(SPECS.validate_python(entry).expand(MODELS))
    assert singles
    for single in singles:
        back = list(SPECS.validate_python(policy_spec(single)).expand(MODELS))
        assert len(back) == 1
        assert same(back[0], single), policy_spec(single)
        assert back[0].label == single.label


def test_every_policy_of_the_experiments_that_come_with_rbx_comes_back_as_a_gateways() -> None:
    seen = 0
    for name, entry, models in experiments():
        for single in SPECS.validate_python(entry).expand(models):
            config = GatewayConfig.model_validate({"policy": policy_spec(single)})
            assert same(config.single_policy(models), single), (name, single.label)
            seen += 1
    assert seen > 50
