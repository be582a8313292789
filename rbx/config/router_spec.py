"""Routed policies as they stand in an experiment file, and their expansion."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from rbx.config.base import Text, UnitFloat
from rbx.config.deployment import DeploymentList, InBatch
from rbx.config.dispatch import DispatchList
from rbx.config.filter import FilteredSpec
from rbx.config.routed_policy import MeanBudget, RoutedPolicy


class RoutedSpec(FilteredSpec):
    """``batched: false`` decides on arrival: such a policy does not look at its batch mates."""

    newer: ClassVar[frozenset[str]] = FilteredSpec.newer | {"deployment"}
    reads_prompt: ClassVar[bool] = True
    dispatch: DispatchList = ("shortest-queue",)
    batched: tuple[bool, ...] = Field((True,), min_length=1)
    deployment: DeploymentList = (InBatch(),)

    @model_validator(mode="after")
    def _something_to_deploy(self) -> RoutedSpec:
        if not self.reads_prompt and self.deployment != (InBatch(),):
            raise ValueError("deployment is for routers that read the prompt; this one scores nothing")
        return self

    def routed(self, **router: Any) -> Iterator[RoutedPolicy]:
        """The router of these fields, with every filter, dispatcher, path and deployment."""
        crossed = itertools.product(self.filter, self.dispatch, self.batched, self.deployment)
        for rule, dispatch, batched, deployment in crossed:
            yield RoutedPolicy(
                dispatch=dispatch, batched=batched, filter=rule, deployment=deployment, **router
            )


class PassthroughSpec(RoutedSpec):
    """No router: the dispatcher picks among all instances."""

    reads_prompt: ClassVar[bool] = False
    kind: Literal["passthrough"]
    dispatch: DispatchList = ("round-robin", "shortest-queue", "random")

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a dispatcher and path."""
        return self.routed(router="passthrough")


class AlwaysSpec(RoutedSpec):
    """Every request to one model; ``"*"`` stands for each model of the pool in turn."""

    reads_prompt: ClassVar[bool] = False
    kind: Literal["always"]
    model: Text

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a model and dispatcher; an unknown model is refused."""
        if self.model != "*" and self.model not in models:
            raise ValueError(f"always: the pool has no model {self.model!r}; it has {', '.join(models)}")
        for model in models if self.model == "*" else (self.model,):
            yield from self.routed(router="always", model=model)


class RandomSpec(RoutedSpec):
    """A model drawn uniformly for each request, blind to the prompt."""

    reads_prompt: ClassVar[bool] = False
    kind: Literal["random"]

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a dispatcher and path."""
        return self.routed(router="random")


class MixSpec(RoutedSpec):
    """A model drawn with fixed shares for each request, blind to the prompt."""

    reads_prompt: ClassVar[bool] = False
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
        return self.routed(router="mix", shares=self.shares)


class PlainRouterSpec(RoutedSpec):
    """The model of the highest predicted quality: by the bundle's neighbours, or a router trained into it."""

    kind: Literal["knn", "linear", "mlp"]

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a dispatcher and path."""
        return self.routed(router=self.kind)


class AvengersProSpec(RoutedSpec):
    """Avengers-Pro; ``performance_weight`` is p_w, the weight of quality against cost within a cluster."""

    kind: Literal["avengers-pro"]
    performance_weight: tuple[UnitFloat, ...] = Field((0.8,), min_length=1)

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a weight, dispatcher and path."""
        for weight in self.performance_weight:
            yield from self.routed(router="avengers-pro", performance_weight=weight)


class MatrixFactorisationSpec(RoutedSpec):
    """RouteLLM's matrix factorisation; a ``threshold`` on P(strong beats weak), or null for all models."""

    kind: Literal["matrix-factorisation"]
    threshold: tuple[UnitFloat | None, ...] = Field((None,), min_length=1)

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a threshold, dispatcher and path."""
        for threshold in self.threshold:
            yield from self.routed(router="matrix-factorisation", threshold=threshold)


class OmniRouterSpec(RoutedSpec):
    """The cheapest model whose predicted quality reaches ``min_quality``, else the best; after OmniRouter."""

    kind: Literal["omni-router"]
    min_quality: tuple[UnitFloat, ...] = Field((0.5,), min_length=1)

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a bound, dispatcher and path."""
        for bound in self.min_quality:
            yield from self.routed(router="omni-router", min_quality=bound)


class PortSpec(RoutedSpec):
    """Quality less what a model's budget makes its cost worth; after PORT. The budget is a request's mean."""

    kind: Literal["port"]
    mean_budget_usd: tuple[MeanBudget, ...] = Field(min_length=1)

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a budget, dispatcher and path."""
        for budget_usd in self.mean_budget_usd:
            yield from self.routed(router="port", mean_budget_usd=budget_usd)
