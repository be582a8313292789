"""Which policy the differences are taken against, and why that one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rbx.errors import UsageError
from rbx.report.point import Point

DEFAULT_BASELINE = "passthrough/shortest-queue"
# Dispatchers that look at no load: the last of passthrough's to be compared with.
_BLIND = ("round-robin", "random")
# Policies under test: the last of all.
_UNDER_TEST = ("routebalance", "bear")


@dataclass(frozen=True)
class Baseline:
    """``why`` completes "Baseline: LABEL, …"."""

    label: str
    why: str


def choose_baseline(points: Sequence[Point], asked: str | None) -> Baseline:
    """The policy that differences are taken against.

    Without ``asked``: passthrough with the shortest queue, batched or else on arrival; else any other
    passthrough, those that look at the load first; else the first policy that is neither RouteBalance nor
    BEAR; else the first that is no reference. Raises ``UsageError`` naming the labels there are.
    """
    by_label: dict[str, Point] = {}
    for point in points:
        by_label.setdefault(point.label, point)
    if asked is not None:
        if asked not in by_label:
            raise UsageError(f"--baseline {asked!r}: no such policy; there are: {', '.join(by_label)}")
        return Baseline(asked, "as asked for")
    for label in (DEFAULT_BASELINE, f"{DEFAULT_BASELINE} unbatched"):
        if label in by_label:
            return Baseline(label, "the usual one")
    rivals = [point for point in by_label.values() if not point.is_reference] or list(by_label.values())
    passthrough = sorted((p for p in rivals if p.family == "passthrough"), key=lambda p: _rank(p.policy))
    if passthrough:
        return Baseline(passthrough[0].label, f"as the sweep has no {DEFAULT_BASELINE}")
    others = [point for point in rivals if point.family not in _UNDER_TEST]
    if others:
        return Baseline(others[0].label, "as the sweep has no passthrough policy")
    return Baseline(rivals[0].label, "the first policy, as the sweep has RouteBalance and BEAR alone")


def _rank(policy: Mapping[str, Any]) -> int:
    """How near a passthrough policy is to the shortest queue: that itself, other looks at load, none."""
    dispatch = policy.get("dispatch")
    kind = dispatch.get("kind") if isinstance(dispatch, Mapping) else dispatch
    return 0 if kind == "shortest-queue" else 2 if kind in _BLIND else 1
