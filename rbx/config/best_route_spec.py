"""BEST-Route as it stands in an experiment file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, model_validator

from rbx.config.base import Text, UnitFloat
from rbx.config.routed_policy import RoutedPolicy
from rbx.config.router_spec import RoutedSpec


class BestRouteSpec(RoutedSpec):
    """Where no probability reaches ``threshold``, ``fallback`` answers; null is the cheapest model.

    ``best-route-frozen`` learns the same labels on the bundle's own embeddings, without torch.
    """

    kind: Literal["best-route", "best-route-frozen"]
    threshold: tuple[UnitFloat, ...] = Field((0.0,), min_length=1)
    fallback: Text | None = None

    @model_validator(mode="after")
    def _when_it_falls_back(self) -> BestRouteSpec:
        if self.fallback is not None and not any(self.threshold):
            raise ValueError("fallback: answers below a threshold; give threshold, above 0")
        return self

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a threshold, dispatcher and path; an unknown fallback is refused."""
        if self.fallback is not None and self.fallback not in models:
            raise ValueError(
                f"best-route: the pool has no model {self.fallback!r} to fall back on; it has "
                f"{', '.join(models)}"
            )
        for threshold in self.threshold:
            # Who is always sure never falls back: one policy, whatever the fallback.
            fallback = self.fallback if threshold > 0 else None
            yield from self.routed(router=self.kind, threshold=threshold, fallback=fallback)
