"""Dispatchers in experiment files: names, constants, lists of constants, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from rbx.config.dispatch import LmDeploy, PowerOfD
from rbx.config.policy import MixSpec, PassthroughSpec, RoutedPolicy, SinglePolicy

PLAIN = ["round-robin", "shortest-queue", "random"]
SCORED = ["power-of-d", "least-work", "lmdeploy", "mooncake", "ewma-latency", "llumnix", "vllm-sr"]
SCORED += ["predicted-latency"]
NAMES = PLAIN + SCORED


def labels(dispatch: Any) -> list[str]:
    spec = PassthroughSpec.model_validate({"kind": "passthrough", "dispatch": dispatch})
    return [policy.label for policy in spec.expand(("small", "large"))]


def test_a_name_alone_takes_the_defaults() -> None:
    assert labels(NAMES) == [f"passthrough/{name}" for name in NAMES]
    assert labels([{"kind": name} for name in SCORED]) == [f"passthrough/{name}" for name in SCORED]


def test_lists_of_constants_multiply_and_labels_tell_them_apart() -> None:
    assert labels([{"kind": "power-of-d", "d": [2, 3]}, "random"]) == [
        "passthrough/power-of-d",
        "passthrough/power-of-d d=3",
        "passthrough/random",
    ]
    assert labels([{"kind": "vllm-sr", "window": [10, 1000], "warm_up_requests": [0, 20]}]) == [
        "passthrough/vllm-sr n10",
        "passthrough/vllm-sr n10 warm20",
        "passthrough/vllm-sr",
        "passthrough/vllm-sr warm20",
    ]
    grid = {"headroom": ["least", "most"], "by_tier": [False, True], "tpot_target_s": [None, 0.05]}
    assert len(set(labels([{"kind": "predicted-latency", **grid}]))) == 8


def test_they_cross_with_routers_and_paths() -> None:
    spec = MixSpec.model_validate(
        {"kind": "mix", "shares": {"a": 1.0}, "dispatch": ["llumnix"], "batched": [True, False]}
    )
    assert [policy.label for policy in spec.expand(("a",))] == [
        "mix:a=100%/llumnix",
        "mix:a=100%/llumnix unbatched",
    ]


def test_a_policy_survives_the_manifest() -> None:
    adapter: TypeAdapter[SinglePolicy] = TypeAdapter(SinglePolicy)
    for dispatch in (PowerOfD(d=3), LmDeploy(requests_per_s={"a": 2.0}), "random"):
        policy = RoutedPolicy.model_validate({"router": "passthrough", "dispatch": dispatch})
        assert adapter.validate_python(policy.model_dump(mode="json")) == policy
    spec = PassthroughSpec.model_validate(
        {"kind": "passthrough", "dispatch": [{"kind": "power-of-d", "d": [2, 4]}]}
    )
    assert PassthroughSpec.model_validate(spec.model_dump(mode="json")) == spec


@pytest.mark.parametrize(
    ("dispatch", "words"),
    [
        (["shortest"], "unknown dispatcher 'shortest'; known: round-robin"),
        ([{"kind": "power-of-two"}], "unknown dispatcher 'power-of-two'"),
        ([{"kind": "power-of-d", "d": [2, 0]}], "greater than 0"),
        ([{"kind": "llumnix", "d": 2}], r"llumnix\.d\s+Extra inputs"),
        ([{"kind": "shortest-queue", "d": 2}], "shortest-queue"),
        ([{"kind": "ewma-latency", "ewma_weight": []}], "ewma_weight is an empty list"),
        ([{"kind": "ewma-latency", "ewma_weight": 0.0}], "greater than 0"),
        ([{"kind": "ewma-latency", "ewma_weight": 1.5}], "less than or equal to 1"),
        ([{"kind": "lmdeploy", "requests_per_s": {"a": 0.0}}], "greater than 0"),
        ([{"kind": "lmdeploy", "speed_power": float("nan")}], "speed_power"),
        ([{"kind": "vllm-sr", "ttft_quantile": 1.0}], "less than 1"),
        ([{"kind": "predicted-latency", "headroom": "middle"}], "'least' or 'most'"),
        ([3], "dispatch.0"),
        ([], "at least 1 item"),
    ],
)
def test_what_cannot_be_is_refused(dispatch: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        labels(dispatch)
