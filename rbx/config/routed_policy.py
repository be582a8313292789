"""Routed policies: a router picks the model, a dispatcher the replica."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Literal, get_args

from pydantic import Field, field_validator

from rbx.config.base import NonNegativeFloat, StrictModel, Text, UnitFloat
from rbx.config.dispatch import DispatchConfig, DispatchList, dispatch_label
from rbx.config.single_policy import Single

TrainedRouterName = Literal["avengers-pro", "linear", "matrix-factorisation", "mlp"]
RouterName = (
    Literal["passthrough", "always", "random", "mix", "knn", "omni-router", "port"] | TrainedRouterName
)
# Beyond what any request costs; far above it the shadow prices are lost to overflow.
MeanBudget = Annotated[float, Field(gt=0, le=1e6, strict=True)]


class RoutedPolicy(Single):
    """A router and a dispatcher; ``passthrough`` lets the dispatcher choose over all instances.

    ``performance_weight`` belongs to ``avengers-pro``, ``threshold`` to ``matrix-factorisation`` (null: the
    best of all models), ``min_quality`` to ``omni-router``, ``mean_budget_usd`` to ``port``.
    """

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
        )
        return " ".join([self.router, *(form.format(value) for form, value in settings if value is not None)])

    @property
    def label(self) -> str:
        """``passthrough/random`` or ``always:MODEL/shortest-queue``; ``unbatched`` where it is so."""
        path = "" if self.batched else " unbatched"
        return f"{self.router_label}/{dispatch_label(self.dispatch)}{path}"


class _RoutedSpec(StrictModel):
    """``batched: false`` decides on arrival: such a policy does not look at its batch mates."""

    dispatch: DispatchList = ("shortest-queue",)
    batched: tuple[bool, ...] = Field((True,), min_length=1)

    def paths(self) -> Iterator[tuple[DispatchConfig, bool]]:
        """Every dispatcher, on every path."""
        yield from itertools.product(self.dispatch, self.batched)


class PassthroughSpec(_RoutedSpec):
    """No router: the dispatcher picks among all instances."""

    kind: Literal["passthrough"]
    dispatch: DispatchList = ("round-robin", "shortest-queue", "random")

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a dispatcher and path."""
        for dispatch, batched in self.paths():
            yield RoutedPolicy(router="passthrough", dispatch=dispatch, batched=batched)


class AlwaysSpec(_RoutedSpec):
    """Every request to one model; ``"*"`` stands for each model of the pool in turn."""

    kind: Literal["always"]
    model: Text

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a model and dispatcher; an unknown model is refused."""
        if self.model != "*" and self.model not in models:
            raise ValueError(f"always: the pool has no model {self.model!r}; it has {', '.join(models)}")
        for model in models if self.model == "*" else (self.model,):
            for dispatch, batched in self.paths():
                yield RoutedPolicy(router="always", dispatch=dispatch, model=model, batched=batched)


class RandomSpec(_RoutedSpec):
    """A model drawn uniformly for each request, blind to the prompt."""

    kind: Literal["random"]

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a dispatcher and path."""
        for dispatch, batched in self.paths():
            yield RoutedPolicy(router="random", dispatch=dispatch, batched=batched)


class MixSpec(_RoutedSpec):
    """A model drawn with fixed shares for each request, blind to the prompt."""

    kind: Literal["mix"]
    shares: dict[str, Annotated[float, Field(ge=0, le=1e6, strict=True)]]

    @field_validator("shares")
    @classmethod
    def _some_share(cls, shares: dict[str, float]) -> dict[str, float]:
        if sum(shares.values()) <= 0:
            raise ValueError("shares sum to zero")
        return shares

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a dispatcher and path; shares of unknown models are refused."""
        unknown = [model for model in self.shares if model not in models]
        if unknown:
            raise ValueError(f"mix: the pool has no model {', '.join(unknown)}")
        for dispatch, batched in self.paths():
            yield RoutedPolicy(router="mix", dispatch=dispatch, shares=self.shares, batched=batched)


class PlainRouterSpec(_RoutedSpec):
    """The model of the highest predicted quality: by the bundle's neighbours, or a router trained into it."""

    kind: Literal["knn", "linear", "mlp"]

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a dispatcher and path."""
        for dispatch, batched in self.paths():
            yield RoutedPolicy(router=self.kind, dispatch=dispatch, batched=batched)


class AvengersProSpec(_RoutedSpec):
    """Avengers-Pro; ``performance_weight`` is p_w, the weight of quality against cost within a cluster."""

    kind: Literal["avengers-pro"]
    performance_weight: tuple[UnitFloat, ...] = Field((0.8,), min_length=1)

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a weight, dispatcher and path."""
        for weight in self.performance_weight:
            for dispatch, batched in self.paths():
                yield RoutedPolicy(
                    router="avengers-pro", dispatch=dispatch, performance_weight=weight, batched=batched
                )


class MatrixFactorisationSpec(_RoutedSpec):
    """RouteLLM's matrix factorisation; a ``threshold`` on P(strong beats weak), or null for all models."""

    kind: Literal["matrix-factorisation"]
    threshold: tuple[UnitFloat | None, ...] = Field((None,), min_length=1)

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a threshold, dispatcher and path."""
        for threshold in self.threshold:
            for dispatch, batched in self.paths():
                yield RoutedPolicy(
                    router="matrix-factorisation", dispatch=dispatch, threshold=threshold, batched=batched
                )


class OmniRouterSpec(_RoutedSpec):
    """The cheapest model whose predicted quality reaches ``min_quality``, else the best; after OmniRouter."""

    kind: Literal["omni-router"]
    min_quality: tuple[UnitFloat, ...] = Field((0.5,), min_length=1)

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a bound, dispatcher and path."""
        for bound in self.min_quality:
            for dispatch, batched in self.paths():
                yield RoutedPolicy(
                    router="omni-router", dispatch=dispatch, min_quality=bound, batched=batched
                )


class PortSpec(_RoutedSpec):
    """Quality less what a model's budget makes its cost worth; after PORT. The budget is a request's mean."""

    kind: Literal["port"]
    mean_budget_usd: tuple[MeanBudget, ...] = Field(min_length=1)

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a budget, dispatcher and path."""
        for budget_usd in self.mean_budget_usd:
            for dispatch, batched in self.paths():
                yield RoutedPolicy(
                    router="port", dispatch=dispatch, mean_budget_usd=budget_usd, batched=batched
                )
