"""Category routing by the answers of a running vLLM Semantic Router."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbx.config.classifier_service import ClassifierService
from rbx.config.routed_policy import RoutedPolicy
from rbx.errors import ConfigError
from rbx.heads.bundle_meta import ModelStatistics
from rbx.heads.routers.head import Arrays, AskedPrompts
from rbx.heads.routers.labelled_means import by_source, labelled_means
from rbx.serve.classifier.client import Classified, classify

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ClassifierRouter:
    """A ``RouterHead`` whose ``score`` asks ``service``: the model of the category in ``table``.

    ``default`` answers for categories without a model, and below ``threshold`` where there is one.
    """

    models: tuple[str, ...]
    service: ClassifierService
    table: Mapping[str, str]
    default: str
    threshold: float | None = None

    @property
    def described(self) -> dict[str, Any]:
        """See ``RouterHead``."""
        return {
            "models": list(self.models),
            "table": dict(sorted(self.table.items())),
            "default": self.default,
        }

    @property
    def arrays(self) -> Arrays:
        """See ``RouterHead``: none."""
        return {}

    def score(self, prompts: AskedPrompts) -> Floats:
        """1 for the model of the prompt's category, else 0; raises ``ServerError`` as ``classify`` does."""
        return self.chosen(classify(self.service, prompts.texts))

    def chosen(self, classified: Sequence[Classified]) -> Floats:
        """``score`` of answers that are there already."""
        return np.eye(len(self.models))[[self.models.index(self._model(each)) for each in classified]]

    def sent_to_default(self, classified: Sequence[Classified]) -> Counter[str]:
        """How many prompts the default model answers, by what their category was called."""
        return Counter(each.category for each in classified if not self._has_model(each))

    def _model(self, classified: Classified) -> str:
        return self.table[classified.category] if self._has_model(classified) else self.default

    def _has_model(self, classified: Classified) -> bool:
        sure = self.threshold is None or classified.confidence >= self.threshold
        return sure and classified.category in self.table


def classifier_router(
    policy: RoutedPolicy,
    models: tuple[str, ...],
    statistics: Sequence[ModelStatistics],
    learnt: Mapping[str, str] | None = None,
) -> ClassifierRouter:
    """The router that ``policy`` means; ``statistics`` of training name the best single model.

    Raises ``ConfigError`` where the policy names no models and nothing was ``learnt``.
    """
    service = policy.service
    assert service is not None
    table = service.models if service.models is not None else learnt
    if table is None:
        raise ConfigError(
            f"policy {policy.label}: nobody knows the labels here; say which model answers each category "
            "(models: {category: model}), such as the map that a simulated sweep has learnt (its manifest)"
        )
    best = max(statistics, key=lambda each: each.mean_score).model
    return ClassifierRouter(models, service, table, service.default_model or best, policy.threshold)


def learnt_table(classified: Sequence[Classified], score: Floats, models: tuple[str, ...]) -> dict[str, str]:
    """The model of the best mean label in each category; ``score`` (N, M), NaN where there is none."""
    categories, member = by_source(tuple(each.category for each in classified))
    best = labelled_means(member, score).argmax(axis=1).tolist()
    return dict(zip(categories, (models[m] for m in best), strict=True))
