"""Deployments of scoring as they stand in files, and what leaves the identity of earlier cells alone."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from rbx.config.base import parse
from rbx.config.experiment import Experiment, SchedulerConfig
from rbx.config.gateway import GatewayConfig
from rbx.config.policy import PolicySpec, RoutedPolicy, SinglePolicy
from rbx.config.policy_spec import policy_spec
from rbx.errors import ConfigError

SPEC: TypeAdapter[Any] = TypeAdapter(PolicySpec)
SINGLE: TypeAdapter[Any] = TypeAdapter(SinglePolicy)
RUNGS = ["in-batch", "serial", "microbatch", "sidecar", "concurrent"]


def expanded(**fields: Any) -> list[RoutedPolicy]:
    return list(SPEC.validate_python({"kind": "linear", **fields}).expand(("small", "large")))


def test_rungs_multiply_with_dispatchers_and_a_name_takes_the_defaults() -> None:
    found = expanded(dispatch=["random", "shortest-queue"], deployment=RUNGS)
    assert [policy.label for policy in found[:5]] == [
        "linear/random",
        "linear/random serial",
        "linear/random microbatch",
        "linear/random sidecar",
        "linear/random concurrent",
    ]
    assert len({policy.label for policy in found}) == 10
    queues = [policy.deployment.queue for policy in found[:5]]
    assert queues == [None, (1, 1, 0.0, 0.0), (1, 64, 0.01, 0.0), (1, 64, 0.01, 0.001), (8, 1, 0.0, 0.0)]


def test_constants_multiply_and_stand_in_the_label() -> None:
    found = expanded(
        deployment=[
            {"kind": "concurrent", "workers": [4, 8]},
            {"kind": "microbatch", "max_size": 16, "window_s": 0.05},
            {"kind": "sidecar", "rpc_s": 0.01},
        ]
    )
    assert [policy.label.partition("queue ")[2] for policy in found] == [
        "concurrent ×4",
        "concurrent",
        "microbatch n16 w0.05",
        "sidecar rpc0.01",
    ]


@pytest.mark.parametrize("rung", [*RUNGS, {"kind": "concurrent", "workers": 3}])
def test_a_policy_is_the_same_after_it_was_written_down(rung: Any) -> None:
    (policy,) = expanded(deployment=[rung])
    assert SINGLE.validate_python(policy.model_dump(mode="json")) == policy
    (again,) = SPEC.validate_python(policy_spec(policy)).expand(("small", "large"))
    assert again == policy


def test_what_is_not_deployed_otherwise_is_written_as_it_always_was() -> None:
    (policy,) = expanded()
    (told,) = expanded(deployment=["in-batch"])
    assert policy == told
    assert "deployment" not in policy.model_dump(mode="json")
    assert "deployment" not in policy_spec(policy)
    assert "deployment" not in SPEC.validate_python({"kind": "linear"}).model_dump(mode="json")
    assert "scoring_cost" not in SchedulerConfig().model_dump(mode="json")
    costs = SchedulerConfig.model_validate({"scoring_cost": {"linear": {}}})
    assert set(costs.model_dump(mode="json")["scoring_cost"]) == {"linear"}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (
            {"kind": "linear", "deployment": ["parallel"]},
            "unknown deployment 'parallel'; known: in-batch, serial",
        ),
        ({"kind": "linear", "deployment": []}, "at least 1"),
        ({"kind": "linear", "deployment": [{"kind": "serial", "workers": 2}]}, "workers"),
        (
            {"kind": "linear", "deployment": [{"kind": "concurrent", "workers": 0}]},
            "greater than or equal to 1",
        ),
        ({"kind": "linear", "deployment": [{"kind": "concurrent", "workers": []}]}, "empty list"),
        ({"kind": "linear", "deployment": [{"kind": "sidecar", "window_s": float("nan")}]}, "window_s"),
        ({"kind": "linear", "deployment": [{"kind": "microbatch", "max_size": True}]}, "max_size"),
        *(
            ({**blind, "deployment": ["serial"]}, "this one scores nothing")
            for blind in (
                {"kind": "passthrough"},
                {"kind": "always", "model": "small"},
                {"kind": "random"},
                {"kind": "mix", "shares": {"small": 1.0}},
            )
        ),
    ],
)
def test_what_can_not_be_meant_is_refused(entry: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(Experiment, experiment(policies=[entry]), where="test")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        ({"linnear": {}}, "linnear"),
        ({"linear": {"fixed_s": -1.0}}, "fixed_s"),
        ({"linear": {"per_token_s": float("inf")}}, "per_token_s"),
        ({"linear": {"max_tokens": 0}}, "max_tokens"),
        ({"linear": {"worker_slowdown": 0.5}}, "worker_slowdown"),
        ({"linear": {"per_tokens_s": 1.0}}, "per_tokens_s"),
        ({"linear": {"fixed_s": 1e300}}, "less than or equal to 3600"),
        ({"linear": {"per_token_s": 3601.0}}, "less than or equal to 3600"),
    ],
)
def test_costs_that_can_not_be_meant_are_refused(cost: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(Experiment, experiment(scheduler={"scoring_cost": cost}), where="test")


def test_real_scoring_takes_what_it_takes() -> None:
    costs = {"scoring_cost": {"linear": {"fixed_s": 0.1}}}
    with pytest.raises(ConfigError, match="simulated pools; a gateway takes what it takes"):
        parse(GatewayConfig, {"policy": {"kind": "linear"}, "scheduler": costs}, where="test")
    live = {"engine": "live", "live": {"target": {"kind": "gateway", "url": "http://127.0.0.1:8200"}}}
    with pytest.raises(ConfigError, match="simulated pools; live ones take what they take"):
        parse(Experiment, experiment(scheduler=costs, **live), where="test")


def experiment(**changes: Any) -> dict[str, Any]:
    return {
        "name": "test",
        "grid": "grid",
        "bundle": "bundle",
        "pool": "pool",
        "workload": {"rates_per_s": [1.0]},
        "policies": [{"kind": "linear"}],
        **changes,
    }
