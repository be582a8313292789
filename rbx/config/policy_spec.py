"""A single policy in the words of a file, for whoever hands it on: the gateway's configuration has specs."""

from __future__ import annotations

from typing import Any

from rbx.config.filter import Filterable
from rbx.config.plugin_policy import plugin_spec
from rbx.config.policy import (
    BearPolicy,
    ExternalPolicy,
    PluginPolicy,
    RouteBalancePolicy,
    RoutedPolicy,
    ScorePolicy,
    SinglePolicy,
)

_OF_RULE = {"soft": ("fallback", "safety_s"), "hard": ("delta_per_s",)}  # fields of the other rule
_REPLAYED = ("true_lengths", "in_flight", "step_time_scale")


def policy_spec(policy: SinglePolicy) -> dict[str, Any]:
    """The ``PolicySpec`` that stands for this policy alone, as JSON."""
    if isinstance(policy, ExternalPolicy):
        return {"kind": "external", "name": policy.name}
    data = policy.model_dump(mode="json", exclude={"filter"})
    rule = policy.filter if isinstance(policy, Filterable) else None
    behind = {} if rule is None else {"filter": [rule.model_dump(mode="json")]}
    return {**_unfiltered(policy, data), **behind}


def _unfiltered(
    policy: RouteBalancePolicy | BearPolicy | ScorePolicy | RoutedPolicy | PluginPolicy, data: dict[str, Any]
) -> dict[str, Any]:
    if isinstance(policy, PluginPolicy):
        return plugin_spec(policy)
    if isinstance(policy, RouteBalancePolicy):
        newer = {"tie_break": [policy.tie_break], "placement": [policy.placement]}
        return {**_listed(data, "weights", "quality", "latency"), **newer}
    if isinstance(policy, ScorePolicy):
        return _listed(data, "tradeoff", "cost_weight", "latency_weight", "decode_step", "batched")
    if isinstance(policy, RoutedPolicy):
        return _routed(data)
    return _bear(policy, data)


def _listed(data: dict[str, Any], *names: str) -> dict[str, Any]:
    return {**data, **{name: [data[name]] for name in names}}


def _routed(data: dict[str, Any]) -> dict[str, Any]:
    router = data["router"]
    own = {
        "always": ("model",),
        "mix": ("shares",),
        "best-route": ("fallback",),
        "best-route-frozen": ("fallback",),
    }.get(router, ())
    swept = {
        "avengers-pro": ("performance_weight",),
        "best-route": ("threshold",),
        "best-route-frozen": ("threshold",),
        "cascade": ("mean_budget_usd", "cost_weight_per_usd"),
        "matrix-factorisation": ("threshold",),
        "omni-router": ("min_quality",),
        "port": ("mean_budget_usd",),
        "oracle": ("cost_weight_per_usd",),
        "source-best": ("cost_weight_per_usd",),
        "semantic-router": ("threshold",),
        "vllm-sr": ("threshold",),
    }.get(router, ())
    shared = {"kind": router, "dispatch": [data["dispatch"]], "batched": [data["batched"]]}
    if "deployment" in data:
        shared["deployment"] = [data["deployment"]]
    service = data.get("service", {})
    # What is newer than the first cells stands in ``data`` only where it is set.
    listed = {name: [data.get(name)] for name in swept}
    if router == "cascade":
        listed = {name: values for name, values in listed.items() if values != [None]}
    return {**shared, **service, **{name: data.get(name) for name in own}, **listed}


def _bear(policy: BearPolicy, data: dict[str, Any]) -> dict[str, Any]:
    if policy.ttft is None:
        return {"kind": "latency-agnostic", "cost_weight_per_usd": policy.cost_weight_per_usd}
    left_out = {*_OF_RULE[policy.rule], *(() if policy.ttft == "bea" else _REPLAYED)}
    lists = ("ttft", "delta_per_s", "fallback", "safety_s", "throughput_scale", *_REPLAYED, "shuffled")
    listed = _listed(data, *lists)
    return {name: value for name, value in listed.items() if name not in left_out}
