"""Policies as they stand in an experiment file, and their expansion into single policies.

A *fused* policy picks the instance; a *routed* policy is a router (picks the model) and a
dispatcher (picks the replica). List-valued fields multiply: one entry may stand for many cells.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from rbx.config.base import NonNegativeFloat, StrictModel, Text
from rbx.config.best_route_spec import BestRouteSpec
from rbx.config.cascade_spec import CascadeSpec
from rbx.config.filter import Filterable, FilteredSpec
from rbx.config.plugin_policy import PluginPolicy, PluginSpec
from rbx.config.reference_spec import OracleSpec, SourceBestSpec
from rbx.config.routed_policy import CostWeight, RoutedPolicy
from rbx.config.router_spec import (
    AlwaysSpec,
    AvengersProSpec,
    MatrixFactorisationSpec,
    MixSpec,
    OmniRouterSpec,
    PassthroughSpec,
    PlainRouterSpec,
    PortSpec,
    RandomSpec,
)
from rbx.config.semantic_spec import SemanticRouterSpec, VllmSrSpec
from rbx.config.single_policy import Single
from rbx.config.ttft_source import TtftSource

__all__ = [
    "BearPolicy",
    "BearSpec",
    "CostWeight",
    "ExternalPolicy",
    "LatencyAgnosticSpec",
    "MixSpec",
    "PassthroughSpec",
    "PluginPolicy",
    "PluginSpec",
    "PolicySpec",
    "RouteBalancePolicy",
    "RouteBalanceSpec",
    "RoutedPolicy",
    "ScorePolicy",
    "SinglePolicy",
]

LatencySource = Literal["xgboost", "prior", "bea"]
TieBreak = Literal["queue", "latency"]
Placement = Literal["greedy", "matching"]
Fallback = Literal["min-ttft", "sacrifice", "shed"]

WEIGHT_LISTS: dict[str, tuple[tuple[float, float, float], ...]] = {
    # The first five are published with RouteBalance; the other eleven complete a spread of the
    # simplex (the paper's own list is not recoverable). Order: quality, latency, cost.
    "paper-16": (
        (1 / 3, 1 / 3, 1 / 3),
        (0.8, 0.1, 0.1),
        (0.1, 0.8, 0.1),
        (0.1, 0.1, 0.8),
        (0.5, 0.3, 0.2),
        (1.0, 0.0, 0.0),
        (0.0, 1.0, 0.0),
        (0.0, 0.0, 1.0),
        (0.9, 0.05, 0.05),
        (0.7, 0.15, 0.15),
        (0.6, 0.2, 0.2),
        (0.5, 0.5, 0.0),
        (0.5, 0.0, 0.5),
        (0.0, 0.5, 0.5),
        (0.4, 0.4, 0.2),
        (0.2, 0.4, 0.4),
    ),
}

# Bounds beyond which nothing but overflow is to be had.
Scale = Annotated[float, Field(ge=1e-3, le=1e3, strict=True)]
Weights = tuple[NonNegativeFloat, NonNegativeFloat, NonNegativeFloat]


class RouteBalancePolicy(Filterable, Single):
    """Eq. 1 and Algorithm 1 of arXiv 2606.17949 with one weight tuple.

    ``tie_break`` says which of equal scores goes first: the shorter queue, or the lower predicted latency T.
    Without a weight on latency all replicas of a model are equal, and the tie-break is what balances them.
    ``placement: matching`` places each batch as a whole in place of one request after another.
    """

    newer: ClassVar[frozenset[str]] = Filterable.newer | {"tie_break", "placement"}
    kind: Literal["routebalance"] = "routebalance"
    weights: Weights
    quality: Literal["raw", "minmax"] = "raw"
    latency: LatencySource = "xgboost"
    tie_break: TieBreak = "queue"
    placement: Placement = "greedy"

    @model_validator(mode="after")
    def _matched_by_what(self) -> RouteBalancePolicy:
        if self.placement == "matching" and (self.latency == "bea" or self.tie_break != "queue"):
            raise ValueError("placement: matching knows neither latency: bea nor tie_break: latency")
        if self.placement == "matching" and self.filter is not None:
            raise ValueError(
                "placement: matching places a batch as a whole, and a filter has each request decided by "
                "itself; take one of the two"
            )
        return self

    @property
    def batched(self) -> bool:
        """Always: the order within a batch is part of the algorithm."""
        return True

    @property
    def label(self) -> str:
        """``rb q0.80 l0.10 c0.10`` and what departs from the defaults."""
        q, latency, cost = self.weights
        extra = "" if self.quality == "raw" else f" {self.quality}"
        extra += "" if self.latency == "xgboost" else f" {self.latency}"
        extra += "" if self.tie_break == "queue" else " ties by latency"
        extra += "" if self.placement == "greedy" else " matching"
        return f"rb q{q:.2f} l{latency:.2f} c{cost:.2f}{extra}{self.filter_words}"


class BearPolicy(Filterable, Single):
    """BEAR (arXiv 2607.18253) with one rule and one TTFT estimator; ``ttft: null`` leaves latency out.

    ``cost_weight_per_usd`` is λ (5e-4 per micro-dollar in the paper), ``delta_per_s`` δ of the soft rule,
    ``safety_s`` what the hard rule asks for beside TTFT (QLM's z·σ, arXiv 2407.00047), ``throughput_scale`` a
    correction of the prefill throughput of the estimators that use one. The last ones are for ablations:
    BEA with true lengths (simulated engines alone can offer that), without the batches in flight, and with
    step times off by a factor; ``shuffled`` permutes the predictions.
    """

    kind: Literal["bear"] = "bear"
    rule: Literal["hard", "soft"] = "hard"
    ttft: TtftSource | None = "bea"
    cost_weight_per_usd: CostWeight = 500.0
    delta_per_s: NonNegativeFloat = 0.0
    fallback: Fallback = "min-ttft"
    safety_s: NonNegativeFloat = 0.0
    throughput_scale: Scale = 1.0
    true_lengths: bool = False
    in_flight: bool = True
    step_time_scale: Scale = 1.0
    shuffled: bool = False
    batched: bool = False

    @property
    def label(self) -> str:
        """``bear``, ``hard/lps`` or ``latency-agnostic``, and what departs from the defaults."""
        if self.ttft is None:
            name = "latency-agnostic"
        elif self.rule == "soft":
            name = f"bear soft δ{self.delta_per_s:g}" + ("" if self.ttft == "bea" else f" {self.ttft}")
        else:
            name = "bear" if self.ttft == "bea" else f"hard/{self.ttft}"
        extra = {
            f"λ{self.cost_weight_per_usd:g}": self.cost_weight_per_usd != 500.0,
            self.fallback: self.fallback != "min-ttft",
            f"safety {self.safety_s:g} s": self.safety_s != 0.0,
            f"θ×{self.throughput_scale:g}": self.throughput_scale != 1.0,
            "true lengths": self.true_lengths,
            "no in-flight": not self.in_flight,
            f"steps×{self.step_time_scale:g}": self.step_time_scale != 1.0,
            "shuffled": self.shuffled,
            "batched": self.batched,
        }
        words = [name, *(words for words, departs in extra.items() if departs)]
        return " ".join(words) + self.filter_words


class ScorePolicy(Filterable, Single):
    """SCORE with one λ: quality − λ·(w_C·cost + w_L·latency); its units are not published (docs/bear.md).

    ``cost_weight`` is per micro-dollar of output, ``latency_weight`` per second. ``decode_step`` says where
    the time of a decode step comes from: a calibration at half load, or what runs now.
    """

    kind: Literal["score"] = "score"
    tradeoff: NonNegativeFloat = 0.05
    cost_weight: NonNegativeFloat = 0.01
    latency_weight: NonNegativeFloat = 1.0
    decode_step: Literal["calibrated", "current"] = "calibrated"
    batched: bool = False

    @property
    def label(self) -> str:
        """``score λ0.05`` and what departs from the defaults."""
        extra = {
            f"c×{self.cost_weight:g}": self.cost_weight != 0.01,
            f"l×{self.latency_weight:g}": self.latency_weight != 1.0,
            "current step": self.decode_step == "current",
            "batched": self.batched,
        }
        words = [f"score λ{self.tradeoff:g}", *(words for words, departs in extra.items() if departs)]
        return " ".join(words) + self.filter_words


class ExternalPolicy(Single):
    """Whatever decides behind a live endpoint; ``name`` tells one from another. No part of rbx runs it."""

    kind: Literal["external"] = "external"
    name: Text = "external"
    batched: Literal[False] = False

    @property
    def label(self) -> str:
        """The name it was given."""
        return self.name


class RouteBalanceSpec(FilteredSpec):
    """``weights`` is a list of (quality, latency, cost) tuples, or the name of a known list."""

    newer: ClassVar[frozenset[str]] = FilteredSpec.newer | {"tie_break", "placement"}
    kind: Literal["routebalance"]
    weights: tuple[Weights, ...] | str
    quality: tuple[Literal["raw", "minmax"], ...] = Field(("raw",), min_length=1)
    latency: tuple[LatencySource, ...] = Field(("xgboost",), min_length=1)
    tie_break: tuple[TieBreak, ...] = Field(("queue",), min_length=1)
    placement: tuple[Placement, ...] = Field(("greedy",), min_length=1)

    @field_validator("weights")
    @classmethod
    def _on_the_simplex(cls, value: tuple[Weights, ...] | str) -> tuple[Weights, ...] | str:
        if isinstance(value, str):
            if value not in WEIGHT_LISTS:
                raise ValueError(f"unknown weight list {value!r}; known: {', '.join(WEIGHT_LISTS)}")
            return value
        if not value:
            raise ValueError("no weight tuple given")
        for weights in value:
            # 0.33/0.33/0.33 is a common way to write thirds, so two decimals must pass.
            if not math.isclose(sum(weights), 1.0, abs_tol=0.0101):
                raise ValueError(f"weights {list(weights)} sum to {sum(weights):g}, not to 1")
        return value

    def expand(self, models: tuple[str, ...]) -> Iterator[RouteBalancePolicy]:
        """Every combination of filter, placement, tie-break, weights, quality scale and latency source."""
        tuples = WEIGHT_LISTS[self.weights] if isinstance(self.weights, str) else self.weights
        for rule, placement, tie_break, quality, latency, weights in itertools.product(
            self.filter, self.placement, self.tie_break, self.quality, self.latency, tuples
        ):
            total = sum(weights)
            q, lat, cost = (weight / total for weight in weights)
            yield RouteBalancePolicy(
                weights=(q, lat, cost),
                quality=quality,
                latency=latency,
                tie_break=tie_break,
                placement=placement,
                filter=rule,
            )


class BearSpec(FilteredSpec):
    """``bear`` entries of an experiment; every list multiplies."""

    kind: Literal["bear"]
    rule: Literal["hard", "soft"] = "hard"
    ttft: tuple[TtftSource, ...] = Field(("bea",), min_length=1)
    cost_weight_per_usd: CostWeight = 500.0
    delta_per_s: tuple[NonNegativeFloat, ...] = Field((0.0,), min_length=1)
    fallback: tuple[Fallback, ...] = Field(("min-ttft",), min_length=1)
    safety_s: tuple[NonNegativeFloat, ...] = Field((0.0,), min_length=1)
    throughput_scale: tuple[Scale, ...] = Field((1.0,), min_length=1)
    true_lengths: tuple[bool, ...] = Field((False,), min_length=1)
    in_flight: tuple[bool, ...] = Field((True,), min_length=1)
    step_time_scale: tuple[Scale, ...] = Field((1.0,), min_length=1)
    shuffled: tuple[bool, ...] = Field((False,), min_length=1)
    batched: bool = False

    @model_validator(mode="after")
    def _what_belongs_together(self) -> BearSpec:
        if self.rule == "hard" and self.delta_per_s != (0.0,):
            raise ValueError("delta_per_s belongs to rule: soft")
        if self.rule == "soft" and self.fallback != ("min-ttft",):
            raise ValueError("fallback belongs to rule: hard")
        if self.rule == "soft" and self.safety_s != (0.0,):
            raise ValueError("safety_s belongs to rule: hard")
        if self.throughput_scale != (1.0,) and not {"prefill-throughput", "lps"}.issuperset(self.ttft):
            raise ValueError("throughput_scale belongs to ttft: [prefill-throughput, lps]")
        replayed = set(self.ttft) == {"bea"}
        for name, default in (("true_lengths", False), ("in_flight", True), ("step_time_scale", 1.0)):
            if getattr(self, name) != (default,) and not replayed:
                raise ValueError(f"{name} belongs to ttft: [bea]")
        return self

    def expand(self, models: tuple[str, ...]) -> Iterator[BearPolicy]:
        """Every combination."""
        names = (
            "ttft",
            "delta_per_s",
            "fallback",
            "safety_s",
            "throughput_scale",
            "true_lengths",
            "in_flight",
            "step_time_scale",
            "shuffled",
            "filter",
        )
        shared = {"rule": self.rule, "cost_weight_per_usd": self.cost_weight_per_usd, "batched": self.batched}
        for values in itertools.product(*(getattr(self, name) for name in names)):
            yield BearPolicy(**shared, **dict(zip(names, values, strict=True)))


class LatencyAgnosticSpec(FilteredSpec):
    """The best quality for the money, wherever it queues: BEAR without its estimator."""

    kind: Literal["latency-agnostic"]
    cost_weight_per_usd: CostWeight = 500.0

    def expand(self, models: tuple[str, ...]) -> Iterator[BearPolicy]:
        """One policy a filter."""
        for rule in self.filter:
            yield BearPolicy(
                rule="soft", ttft=None, cost_weight_per_usd=self.cost_weight_per_usd, filter=rule
            )


class ScoreSpec(FilteredSpec):
    """``score`` entries of an experiment; every list multiplies."""

    kind: Literal["score"]
    tradeoff: tuple[NonNegativeFloat, ...] = Field((0.05,), min_length=1)
    cost_weight: tuple[NonNegativeFloat, ...] = Field((0.01,), min_length=1)
    latency_weight: tuple[NonNegativeFloat, ...] = Field((1.0,), min_length=1)
    decode_step: tuple[Literal["calibrated", "current"], ...] = Field(("calibrated",), min_length=1)
    batched: tuple[bool, ...] = Field((False,), min_length=1)

    def expand(self, models: tuple[str, ...]) -> Iterator[ScorePolicy]:
        """Every combination."""
        names = ("tradeoff", "cost_weight", "latency_weight", "decode_step", "batched", "filter")
        for values in itertools.product(*(getattr(self, name) for name in names)):
            yield ScorePolicy(**dict(zip(names, values, strict=True)))


class ExternalSpec(StrictModel):
    """What a live target does by itself: nothing is put in force there."""

    kind: Literal["external"]
    name: Text = "external"

    def expand(self, models: tuple[str, ...]) -> Iterator[ExternalPolicy]:
        """One policy."""
        yield ExternalPolicy(name=self.name)


SinglePolicy = RouteBalancePolicy | BearPolicy | ScorePolicy | RoutedPolicy | PluginPolicy | ExternalPolicy
PolicySpec = Annotated[
    RouteBalanceSpec
    | BearSpec
    | LatencyAgnosticSpec
    | ScoreSpec
    | PassthroughSpec
    | AlwaysSpec
    | RandomSpec
    | MixSpec
    | PlainRouterSpec
    | AvengersProSpec
    | BestRouteSpec
    | CascadeSpec
    | MatrixFactorisationSpec
    | OmniRouterSpec
    | PortSpec
    | OracleSpec
    | SourceBestSpec
    | SemanticRouterSpec
    | VllmSrSpec
    | PluginSpec
    | ExternalSpec,
    Field(discriminator="kind"),
]
