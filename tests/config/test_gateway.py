"""What a gateway is told to do, and what is refused before it can hurt."""

from __future__ import annotations

from typing import Any

import pytest

from rbx.config.base import parse
from rbx.config.gateway import Admission, GatewayConfig, Watch
from rbx.errors import ConfigError

POLICY = {"kind": "passthrough", "dispatch": ["shortest-queue"]}


def read(**changes: Any) -> GatewayConfig:
    return parse(GatewayConfig, {"policy": POLICY, **changes}, where="test")


def test_the_defaults_and_the_bounds_themselves_are_taken() -> None:
    assert read().watch == Watch(period_s=0.5, timeout_s=1.0, max_age_s=3.0)
    assert read(watch={"period_s": 3000.0, "max_age_s": 3600.0}).watch.period_s == 3000.0
    most = {"max_in_flight": 1_000_000, "max_waiting": 1_000_000}
    assert read(admission=most).admission == Admission(**most)


@pytest.mark.parametrize(
    "watch",
    [
        {"period_s": 4.0},
        {"period_s": 3600.0},
        {"period_s": 2.9, "timeout_s": 0.05},  # the pause may be a tenth longer
        {"timeout_s": 3.0},
        {"max_age_s": 1.0},
    ],
)
def test_an_answer_counts_until_the_next(watch: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"watch: max_age_s .* period_s .* timeout_s"):
        read(watch=watch)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("watch", "period_s", 3600.1),
        ("watch", "timeout_s", 1e9),
        ("watch", "max_age_s", 1e9),
        ("admission", "max_in_flight", 1_000_001),
        ("admission", "max_waiting", 3_000_000),
    ],
)
def test_what_no_gateway_needs_is_refused_by_its_key(section: str, key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"{section}\.{key}: .* less than or equal to"):
        read(**{section: {key: value}})
