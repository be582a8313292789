"""BEAR and SCORE in experiment files: lists multiply, labels are unique, and what does not fit is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from rbx.config.policy import BearSpec, LatencyAgnosticSpec, ScoreSpec


def bears(**fields: Any) -> list[str]:
    return [policy.label for policy in BearSpec.model_validate({"kind": "bear", **fields}).expand(())]


def test_defaults_are_the_papers_router() -> None:
    (policy,) = BearSpec.model_validate({"kind": "bear"}).expand(())
    assert (policy.label, policy.rule, policy.ttft, policy.fallback) == ("bear", "hard", "bea", "min-ttft")
    assert (policy.cost_weight_per_usd, policy.safety_s, policy.batched) == (500.0, 0.0, False)
    (agnostic,) = LatencyAgnosticSpec.model_validate({"kind": "latency-agnostic"}).expand(())
    assert (agnostic.label, agnostic.rule, agnostic.ttft) == ("latency-agnostic", "soft", None)


def test_lists_multiply_and_labels_tell_every_combination_apart() -> None:
    hard = bears(
        ttft=["prefill-throughput", "lps"],
        fallback=["min-ttft", "shed"],
        safety_s=[0, 0.05],
        throughput_scale=[0.5, 1],
    )
    assert len(set(hard)) == 16
    assert "hard/lps shed safety 0.05 s θ×0.5" in hard
    handicapped = bears(true_lengths=[False, True], in_flight=[True, False], step_time_scale=[0.8, 1])
    assert len(set(handicapped)) == 8
    assert bears(rule="soft", delta_per_s=[0, 0.5]) == ["bear soft δ0", "bear soft δ0.5"]
    spec = ScoreSpec.model_validate(
        {"kind": "score", "tradeoff": [0.05, 0.5], "cost_weight": [0.01, 0.1], "decode_step": ["current"]}
    )
    labels = [policy.label for policy in spec.expand(())]
    assert labels == [
        "score λ0.05 current step",
        "score λ0.05 c×0.1 current step",
        "score λ0.5 current step",
        "score λ0.5 c×0.1 current step",
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"rule": "hard", "delta_per_s": [0.5]}, "delta_per_s belongs to rule: soft"),
        ({"rule": "soft", "fallback": ["shed"]}, "fallback belongs to rule: hard"),
        ({"rule": "soft", "safety_s": [0.1]}, "safety_s belongs to rule: hard"),
        ({"ttft": ["lps"], "true_lengths": [True]}, r"true_lengths belongs to ttft: \[bea\]"),
        ({"ttft": ["bea", "lps"], "in_flight": [False]}, "in_flight belongs to"),
        ({"throughput_scale": [0.5]}, r"throughput_scale belongs to ttft: \[prefill-throughput, lps\]"),
        ({"ttft": ["lps-engine"], "throughput_scale": [0.5]}, "throughput_scale belongs to"),
        ({"ttft": ["bea", "lps"], "throughput_scale": [1, 0.5]}, "throughput_scale belongs to"),
        ({"ttft": ["xgboost"]}, "'bea', 'prefill-throughput', 'lps' or 'lps-engine'"),
        ({"ttft": []}, "at least 1 item"),
        ({"safety_s": [-0.1]}, "greater than or equal to 0"),
        ({"throughput_scale": [0.0]}, "greater than or equal to 0.001"),
        ({"cost_weight_per_usd": float("nan")}, "finite"),
    ],
)
def test_what_does_not_fit_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        bears(**fields)
