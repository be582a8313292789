"""References as they stand in an experiment file: routers that know what nobody knows of a live request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from rbx.config.routed_policy import CostWeight, RoutedPolicy
from rbx.config.router_spec import RoutedSpec


class OracleSpec(RoutedSpec):
    """The model of the highest true label, of equals the cheapest; it sees the answers, for sweeps alone.

    ``cost_weight_per_usd`` takes the true cost off the label; null asks for the label alone.
    """

    reads_prompt: ClassVar[bool] = False
    kind: Literal["oracle"]
    cost_weight_per_usd: tuple[CostWeight | None, ...] = Field((None,), min_length=1)

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a cost weight, dispatcher and path."""
        for weight in self.cost_weight_per_usd:
            yield from self.routed(router="oracle", cost_weight_per_usd=weight)


class SourceBestSpec(RoutedSpec):
    """The model of the best mean train score on the data set that the prompt is from; for sweeps alone.

    ``cost_weight_per_usd`` takes the mean cost off the score; null asks for the score alone.
    """

    reads_prompt: ClassVar[bool] = False
    kind: Literal["source-best"]
    cost_weight_per_usd: tuple[CostWeight | None, ...] = Field((None,), min_length=1)

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a cost weight, dispatcher and path."""
        for weight in self.cost_weight_per_usd:
            yield from self.routed(router="source-best", cost_weight_per_usd=weight)
