"""A gateway's configuration from a policy alone, as the command line names it."""

from __future__ import annotations

from typing import Any

from rbx.config.base import parse_yaml
from rbx.errors import ConfigError

THIRD = 1 / 3
# What a bare name stands for. The hard rule of bear needs a target; the paper's follows from the prompt.
NAMED: dict[str, dict[str, Any]] = {
    "routebalance": {"policy": {"kind": "routebalance", "weights": [[THIRD, THIRD, THIRD]]}},
    "passthrough": {"policy": {"kind": "passthrough", "dispatch": ["shortest-queue"]}},
    "random": {"policy": {"kind": "random", "dispatch": ["shortest-queue"]}},
    "bear": {"policy": {"kind": "bear"}, "slo": {"ttft_target": {}}},
    "latency-agnostic": {"policy": {"kind": "latency-agnostic"}},
    "score": {"policy": {"kind": "score"}},
}


def default_policy(has_bundle: bool) -> str:
    """The policy of whoever names none: RouteBalance where there are heads, else the shortest queue."""
    return "routebalance" if has_bundle else "passthrough"


def gateway_document(policy: str) -> dict[str, Any]:
    """The gateway file that ``policy`` stands for: a name in ``NAMED``, or a mapping in YAML.

    Raises ``ConfigError`` for anything else.
    """
    meant = parse_yaml(policy, where=f"--policy {policy[:100]!r}")
    if isinstance(meant, dict):
        return {"policy": meant}
    if isinstance(meant, str) and meant in NAMED:
        document = NAMED[meant]
        return {key: dict(value) for key, value in document.items()}
    raise ConfigError(
        f"--policy {policy[:100]!r} is neither one of {', '.join(NAMED)} nor a mapping such as "
        "'{kind: always, model: NAME}'"
    )
