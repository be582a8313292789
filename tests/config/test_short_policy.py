"""A policy on the command line is read as one in a file."""

from __future__ import annotations

import pytest

from rbx.config.base import parse
from rbx.config.gateway import GatewayConfig
from rbx.config.policy import BearSpec
from rbx.config.short_policy import NAMED, gateway_document
from rbx.errors import ConfigError


def test_numbers_are_those_of_files() -> None:
    document = gateway_document("{kind: bear, cost_weight_per_usd: 5e2}")
    config = parse(GatewayConfig, {**document, "slo": {"ttft_target": {}}}, where="--policy")
    assert isinstance(config.policy, BearSpec)
    assert config.policy.cost_weight_per_usd == 500.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{kind: bear, cost_weight_per_usd: 5.0, cost_weight_per_usd: 6.0}", "given twice"),
        ("{kind: bear", "not valid YAML"),
        ("{kind: always, model: 2026-13-01}", "not valid YAML"),
        ("[" * 5000, "not valid YAML"),
        ("bare", "neither one of"),
        ("[bear]", "neither one of"),
        ("3", "neither one of"),
    ],
)
def test_what_is_no_policy_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        gateway_document(text)
    assert "--policy" in str(caught.value)


@pytest.mark.parametrize("name", NAMED)
def test_names_stand_for_whole_documents(name: str) -> None:
    assert gateway_document(name) == NAMED[name]
    parse(GatewayConfig, gateway_document(name), where="--policy")
