"""What a policy is in the comparison: BEAR, a variant of one of the two systems, a baseline, a reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rbx.report.point import is_reference

Kind = Literal["bear", "variant", "baseline", "reference"]

BEAR_LABEL = "bear"
_LATENCY_AWARE = {
    "routebalance": "RouteBalance",
    "score": "SCORE",
    "vllm-sr": "vLLM-SR",
    "mooncake": "Mooncake",
}
LATENCY_AWARE_ROUTERS = tuple(_LATENCY_AWARE.values())


@dataclass(frozen=True)
class Role:
    """``router`` names what the policy is one setting of; ``latency_aware``: an existing such router.

    BEAR is the hard rule on BEA at its own constants. Variants are other rules, estimators and handicaps
    of BEAR, and RouteBalance on BEA's latencies: no baseline, as they hold a part of what is compared.
    The latency-agnostic router is BEAR without its estimator, and a baseline of the paper. References know
    what nobody knows of a live request, and are compared with nobody.
    """

    kind: Kind
    router: str
    latency_aware: bool = False

    @property
    def words(self) -> str:
        """``latency-aware baseline`` and the like."""
        if self.kind == "baseline":
            return "latency-aware baseline" if self.latency_aware else "baseline"
        return "BEAR" if self.kind == "bear" else self.kind


def role_of(policy: Mapping[str, Any], label: str) -> Role:
    """Read the role off a policy as it stands in a manifest."""
    kind = str(policy.get("kind", ""))
    if is_reference(policy):
        return Role("reference", label)
    if kind == "bear":
        if policy.get("ttft") is None:
            return Role("baseline", "latency-agnostic")
        return Role("bear", "BEAR") if label == BEAR_LABEL else Role("variant", label)
    router = _latency_aware(policy)
    if router is None:
        return Role("baseline", label)
    if _rests_on_bea(policy):
        return Role("variant", label)
    return Role("baseline", router, latency_aware=True)


def _latency_aware(policy: Mapping[str, Any]) -> str | None:
    """The router's name where it is one of ``LATENCY_AWARE_ROUTERS`` that places requests itself."""
    word = policy.get("kind")
    if word == "routed":
        dispatch = policy.get("dispatch")
        word = dispatch.get("kind") if isinstance(dispatch, Mapping) else dispatch
        if policy.get("router") != "passthrough":
            return None
    return _LATENCY_AWARE.get(str(word))


def _rests_on_bea(policy: Mapping[str, Any]) -> bool:
    return "bea" in (policy.get("latency"), policy.get("ttft"))
