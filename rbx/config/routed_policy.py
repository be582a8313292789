"""Routed policies: a router picks the model, a dispatcher the replica."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from rbx.config.base import NonNegativeFloat, UnitFloat
from rbx.config.classifier_service import ClassifierService
from rbx.config.deployment import Deployment, InBatch
from rbx.config.dispatch import DispatchConfig, dispatch_label
from rbx.config.filter import Filterable
from rbx.config.single_policy import Single

TrainedRouterName = Literal[
    "avengers-pro",
    "best-route",
    "best-route-frozen",
    "cascade",
    "linear",
    "matrix-factorisation",
    "mlp",
    "semantic-router",
    "source-best",
]
PlainRouterName = Literal[
    "passthrough", "always", "random", "mix", "knn", "omni-router", "port", "oracle", "vllm-sr"
]
RouterName = PlainRouterName | TrainedRouterName
# Bounds beyond which nothing but overflow is to be had.
CostWeight = Annotated[float, Field(ge=0, le=1e9, strict=True)]
# Beyond what any request costs; far above it the shadow prices are lost to overflow.
MeanBudget = Annotated[float, Field(gt=0, le=1e6, strict=True)]


class RoutedPolicy(Filterable, Single):
    """A router and a dispatcher; ``passthrough`` lets the dispatcher choose over all instances.

    ``performance_weight`` belongs to ``avengers-pro``, ``threshold`` to ``matrix-factorisation`` (null: the
    best of all models), ``semantic-router`` and ``vllm-sr``, ``min_quality`` to ``omni-router``,
    ``mean_budget_usd`` to ``port``, ``cost_weight_per_usd`` to ``oracle`` and ``source-best`` (null: quality
    alone), one of these two to ``cascade``, ``service`` to ``vllm-sr``; ``best-route`` has ``threshold`` and
    ``fallback`` (null: the cheapest).
    """

    newer: ClassVar[frozenset[str]] = Filterable.newer | {
        "deployment",
        "cost_weight_per_usd",
        "service",
        "fallback",
    }
    kind: Literal["routed"] = "routed"
    router: RouterName
    dispatch: DispatchConfig
    model: str | None = None
    shares: dict[str, NonNegativeFloat] | None = None
    performance_weight: UnitFloat | None = None
    threshold: UnitFloat | None = None
    min_quality: UnitFloat | None = None
    mean_budget_usd: MeanBudget | None = None
    batched: bool = True
    deployment: Deployment = InBatch()
    cost_weight_per_usd: CostWeight | None = None
    service: ClassifierService | None = None
    fallback: str | None = None

    @property
    def sees_labels(self) -> bool:
        """Whether it sees the labels, so that only a simulated sweep can run it."""
        return self.router == "oracle"

    @property
    def goes_by_score(self) -> bool:
        """Whether it takes the model of the highest ``RequestTable.router_score``."""
        return self.sees_labels or self.router == "vllm-sr" or self.trained_router is not None

    @property
    def trained_router(self) -> TrainedRouterName | None:
        """Which router of the bundle it asks, if any."""
        names: tuple[TrainedRouterName, ...] = get_args(TrainedRouterName)
        return next((name for name in names if name == self.router), None)

    @property
    def router_label(self) -> str:
        """The router with its settings: ``avengers-pro pw0.80``."""
        if self.router == "always":
            return f"always:{self.model}"
        if self.router == "mix" and self.shares:
            total = sum(self.shares.values())
            return "mix:" + ",".join(f"{m}={100 * s / total:.0f}%" for m, s in self.shares.items())
        settings = (
            ("pw{:.2f}", self.performance_weight),
            ("t{:g}", self.threshold),
            ("q≥{:g}", self.min_quality),
            ("b${:g}", self.mean_budget_usd),
            ("λ{:g}", self.cost_weight_per_usd),
            ("else {}", self.fallback),
        )
        name = "oracle (true labels)" if self.sees_labels else self.router
        return " ".join([name, *(form.format(value) for form, value in settings if value is not None)])

    @property
    def label(self) -> str:
        """``passthrough/random`` or ``always:MODEL/shortest-queue``; what else departs from the defaults."""
        path = "" if self.batched else " unbatched"
        if self.deployment != InBatch():
            path += f" {self.deployment.label}"
        return f"{self.router_label}/{dispatch_label(self.dispatch)}{path}{self.filter_words}"
