"""vLLM's Semantic Router as it stands in an experiment file: rebuilt, or running beside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from rbx.config.base import UnitFloat
from rbx.config.classifier_service import ClassifierService
from rbx.config.routed_policy import RoutedPolicy
from rbx.config.router_spec import RoutedSpec


class SemanticRouterSpec(RoutedSpec):
    """Category routing rebuilt; below ``threshold`` of confidence the default model answers."""

    kind: Literal["semantic-router"]
    threshold: tuple[UnitFloat, ...] = Field((0.6,), min_length=1)

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a threshold, dispatcher and path."""
        for threshold in self.threshold:
            yield from self.routed(router="semantic-router", threshold=threshold)


class VllmSrSpec(ClassifierService, RoutedSpec):
    """Category routing by a running service; ``threshold`` null leaves confidence to the service itself."""

    kind: Literal["vllm-sr"]
    threshold: tuple[UnitFloat | None, ...] = Field((None,), min_length=1)

    def expand(self, models: tuple[str, ...]) -> Iterator[RoutedPolicy]:
        """One policy a threshold, dispatcher and path; a model that the pool lacks is refused."""
        fields = {name: getattr(self, name) for name in ClassifierService.model_fields}
        service = ClassifierService(**fields)
        service.check(models)
        for threshold in self.threshold:
            yield from self.routed(router="vllm-sr", service=service, threshold=threshold)
