"""A point: one policy at one rate, its seeds together. The unit of every table and figure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rbx.config.references import REFERENCES
from rbx.report.keeping_up import all_keep_up, keeps_up
from rbx.report.load import Cell
from rbx.report.metrics import Metrics, measure
from rbx.report.requests import Ints


@dataclass(frozen=True)
class Point:
    """One policy at one rate; ``load`` is the fraction of capacity where the sweep asked by load.

    ``workloads`` names what it faced: two points are paired when and only when these agree.
    ``sustained`` says of each cell whether it keeps up with its arrivals, None where that can't be told.
    """

    label: str
    family: str
    policy: dict[str, Any]
    rate_per_s: float
    load: float | None
    cells: tuple[Cell, ...]
    metrics: Metrics
    sustained: tuple[bool | None, ...]

    @property
    def workloads(self) -> tuple[tuple[int, str], ...]:
        """(seed, workload hash) of each cell."""
        return tuple((cell.spec.seed, cell.spec.workload_hash) for cell in self.cells)

    @property
    def prompts(self) -> Ints:
        """Prompt number of each request, seeds one after the other; shape (N,)."""
        return np.concatenate([cell.requests.prompt for cell in self.cells])

    @property
    def keeps_up(self) -> bool | None:
        """Whether every cell that can be judged keeps up; None where none can be."""
        return all_keep_up(self.sustained)

    @property
    def is_overloaded(self) -> bool:
        """Whether some cell is known not to keep up: latencies grow with the length of the run."""
        return self.keeps_up is False

    @property
    def is_fused(self) -> bool:
        """Whether the policy picks model and instance in one decision (RouteBalance)."""
        return self.policy.get("kind") == "routebalance"

    @property
    def is_reference(self) -> bool:
        """Whether the policy knew what nobody knows of a live request: a line to measure by, no rival."""
        return is_reference(self.policy)

    def with_seeds(self, seeds: Collection[int]) -> Point:
        """Some of its seeds alone, at least one of which it must have."""
        cells = [cell for cell in self.cells if cell.spec.seed in seeds]
        return self if len(cells) == len(self.cells) else to_points(cells)[0]


def is_reference(policy: Mapping[str, Any]) -> bool:
    """Whether a policy, as it stands in a manifest, is one of ``REFERENCES``."""
    return policy.get("router") in REFERENCES


def family_of(policy: dict[str, Any]) -> str:
    """``routebalance``, the router of a routed policy, a plug-in by name: what a figure colours by."""
    kind = str(policy.get("kind", "unknown"))
    if kind == "plugin":
        return f"plugin {policy.get('name')}"
    return str(policy.get("router", kind)) if kind == "routed" else kind


def to_points(cells: Iterable[Cell]) -> list[Point]:
    """Group cells by rate and policy: rates ascend, policies keep the order of the manifest."""
    groups: dict[tuple[float, str], list[Cell]] = {}
    order: dict[str, int] = {}
    for cell in cells:
        order.setdefault(cell.spec.label, len(order))
        groups.setdefault((cell.spec.rate_per_s, cell.spec.label), []).append(cell)
    points = []
    for (rate_per_s, label), members in sorted(groups.items(), key=lambda g: (g[0][0], order[g[0][1]])):
        members.sort(key=lambda cell: cell.spec.seed)
        spec = members[0].spec
        points.append(
            Point(
                label=label,
                family=family_of(spec.policy),
                policy=spec.policy,
                rate_per_s=rate_per_s,
                load=spec.load,
                cells=tuple(members),
                metrics=measure(members),
                sustained=tuple(keeps_up(cell.requests) for cell in members),
            )
        )
    return points
