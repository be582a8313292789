"""A cascade as it stands in an experiment file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import model_validator

from rbx.config.deployment import InBatch
from rbx.config.routed_policy import CostWeight, MeanBudget, RoutedPolicy
from rbx.config.router_spec import RoutedSpec


class CascadeSpec(RoutedSpec):
    """One model after the other until an answer is good enough; after FrugalGPT (arXiv 2305.05176).

    Models and thresholds are learnt for a mean budget a request, or for what one USD is worth in quality.
    """

    kind: Literal["cascade"]
    mean_budget_usd: tuple[MeanBudget, ...] = ()
    cost_weight_per_usd: tuple[CostWeight, ...] = ()

    @model_validator(mode="after")
    def _what_it_is_learnt_for(self) -> CascadeSpec:
        if not self.mean_budget_usd and not self.cost_weight_per_usd:
            raise ValueError(
                "cascade: give mean_budget_usd or cost_weight_per_usd; the chain is learnt for it"
            )
        if self.deployment != (InBatch(),):
            raise ValueError("cascade: deployment is for routers that read prompts; this one reads answers")
        if any(rule is not None for rule in self.filter):
            raise ValueError("cascade: takes no filter; a request that is turned away half-way had an answer")
        return self

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a budget or weight, dispatcher and path."""
        for budget_usd in self.mean_budget_usd:
            yield from self.routed(router="cascade", mean_budget_usd=budget_usd)
        for weight in self.cost_weight_per_usd:
            yield from self.routed(router="cascade", cost_weight_per_usd=weight)
