"""What a running classifier says of a sweep's prompts: asked once, when the sweep is planned.

Cells then go by the stored answers, so that they have the same bytes however often they run and whether or
not the service still does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rbx.config.classifier_service import ClassifierService
from rbx.config.policy import RoutedPolicy, SinglePolicy
from rbx.config.pool import Pool
from rbx.errors import ConfigError
from rbx.grid.schema import GridView
from rbx.heads.bundle import Bundle
from rbx.policy.request_table import Floats, Ints
from rbx.serve.classifier.client import Classified, classify
from rbx.serve.classifier.router import classifier_router, learnt_table


class ClassifiedPrompts:
    """The prompts ``rows`` of a grid, and its training prompts, as each service classifies them."""

    def __init__(self, view: GridView, rows: Ints, pool: Pool) -> None:
        """Nobody is asked yet."""
        self._view = view
        self._rows = rows
        self._pool = pool
        self._known: dict[tuple[str, int], Classified] = {}

    def of(self, service: ClassifierService) -> list[Classified]:
        """Of ``rows``; raises ``ServerError`` where the service does not answer for all of them."""
        return self._asked(service, self._rows)

    def learnt(self, service: ClassifierService) -> dict[str, str]:
        """The best model of each category in training; raises ``ConfigError`` if that has seen ``rows``."""
        train = self._view.rows("train")
        if np.isin(self._rows, train).any():
            raise ConfigError(
                f"vllm-sr: a map learnt from the train split knows its labels; take workload.split: test, or "
                f"say which model answers each category of {service.url} (models)"
            )
        columns = np.array([self._view.models.index(model) for model in self._pool.models])
        score = self._view.score[np.ix_(train, columns)]
        return learnt_table(self._asked(service, train), score, self._pool.models)

    def _asked(self, service: ClassifierService, rows: Ints) -> list[Classified]:
        new = [row for row in rows.tolist() if (service.url, row) not in self._known]
        answers = classify(service, [self._view.prompts[row] for row in new])
        self._known.update({(service.url, row): each for row, each in zip(new, answers, strict=True)})
        return [self._known[service.url, row] for row in rows.tolist()]


def classifier_scores(
    bundle: Bundle, view: GridView, rows: Ints, policies: Iterable[SinglePolicy], pool: Pool
) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Scores (P, M) of ``rows`` by the label of each router that asks a service, and what to note of it.

    The note holds the map from categories to models, and how many prompts of which category the default
    model answers. Raises ``ServerError`` where a service does not answer, ``ConfigError`` as ``learnt`` does.
    """
    asking = [p for p in policies if isinstance(p, RoutedPolicy) and p.service is not None]
    prompts = ClassifiedPrompts(view, rows, pool)
    scores: dict[str, Floats] = {}
    noted: dict[str, Any] = {}
    for policy in asking:
        service = policy.service
        if service is None or policy.router_label in scores:
            continue
        learnt = prompts.learnt(service) if service.models is None else None
        router = classifier_router(policy, pool.models, bundle.meta.statistics, learnt)
        classified = prompts.of(service)
        scores[policy.router_label] = router.chosen(classified)
        noted[policy.router_label] = {
            "url": service.url,
            **router.described,
            "prompts": len(classified),
            "sent_to_default": dict(sorted(router.sent_to_default(classified).items())),
        }
    return scores, noted
