"""Routers as they stand in the comparison: a policy of the pool, asked about prompts and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from rbx.config.policy import PolicySpec, RoutedPolicy
from rbx.config.pool import Pool
from rbx.config.references import REFERENCES
from rbx.heads.bundle import Bundle
from rbx.heads.routers.asked import asked_router
from rbx.heads.routers.avengers_pro import PERFORMANCE_WEIGHTS
from rbx.heads.routers.head import AskedPrompts
from rbx.report.routers.population import Material, answer_costs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KNN = "knn"
# Routers whose score of a model is the score that they expect of its answer.
QUALITY_SCORED = (KNN, "linear", "mlp", "source-best")
# Whom it asks depends on answers, not on the prompt alone.
CASCADE = "cascade"
# Settings beside the default one that get a row of their own.
_SETTINGS: dict[str, dict[str, list[Any]]] = {
    "avengers-pro": {"performance_weight": list(PERFORMANCE_WEIGHTS)},
    "matrix-factorisation": {"threshold": [None, 0.5]},
}
COST_WEIGHTS = (0.1, 0.3)  # of the rows that weigh cost; the curves sweep it


@dataclass(frozen=True)
class Contender:
    """A router with its settings. ``cost_weight`` takes what an answer costs off its score.

    It is in score per ``cost_unit_usd``: what the dearest model's answer costs on the mean training prompt.
    """

    policy: RoutedPolicy
    cost_weight: float = 0.0
    cost_unit_usd: float = 1.0

    @property
    def name(self) -> str:
        """The router's name, without settings."""
        return self.policy.router

    @property
    def label(self) -> str:
        """The router with its settings."""
        return self.policy.router_label + (f" λ{self.cost_weight:g}" if self.cost_weight else "")

    def scores(self, bundle: Bundle, pool: Pool, prompts: AskedPrompts, input_tokens: Ints) -> Floats:
        """Scores (P, M); the choice is the highest, ties going to the earlier model of the pool."""
        known = self.policy.trained_router is not None
        if known and not self.cost_weight:
            return asked_router(bundle, self.policy, pool).score(prompts)
        predicted = bundle.knn.predict(prompts.embeddings)
        score = asked_router(bundle, self.policy, pool).score(prompts) if known else predicted.quality
        if not self.cost_weight:
            return score
        expected_usd = answer_costs(input_tokens, predicted.length_tokens, pool)
        return np.asarray(score - self.cost_weight * expected_usd / self.cost_unit_usd)

    def choices(self, bundle: Bundle, pool: Pool, prompts: AskedPrompts, input_tokens: Ints) -> Ints:
        """The model chosen for each prompt, (P,)."""
        scores = self.scores(bundle, pool, prompts, input_tokens)
        return np.asarray(scores.argmax(axis=1), dtype=np.int64)


def is_reference(label: str) -> bool:
    """Whether a row or curve of that label is of a router that is told what no live request tells."""
    return label.partition(" ")[0] in REFERENCES


def prompt_routers(bundle: Bundle) -> tuple[str, ...]:
    """Routers trained into the bundle that choose by the prompt alone."""
    return tuple(name for name in sorted(bundle.routers) if name != CASCADE)


def plain_contenders(bundle: Bundle) -> tuple[Contender, ...]:
    """Each router of the bundle once, as an experiment file that gives no settings would run it."""
    return tuple(
        Contender(next(_policies(bundle, {"kind": name}))) for name in (*prompt_routers(bundle), KNN)
    )


def all_contenders(material: Material) -> tuple[Contender, ...]:
    """Each router of the bundle in every setting that has a row; each label once."""
    bundle = material.bundle
    found = {plain.label: plain for plain in plain_contenders(bundle)}
    for name in prompt_routers(bundle):
        for policy in _policies(bundle, {"kind": name, **_SETTINGS.get(name, {})}):
            found.setdefault(policy.router_label, Contender(policy))
    for weight in COST_WEIGHTS:
        weighed = weighing_cost(found[KNN], weight, material)
        found[weighed.label] = weighed
    return tuple(sorted(found.values(), key=lambda contender: contender.label))


def weighing_cost(contender: Contender, weight: float, material: Material) -> Contender:
    """The same router with a weight on cost."""
    return replace(contender, cost_weight=weight, cost_unit_usd=cost_unit_usd(material))


def cost_unit_usd(material: Material) -> float:
    """Mean cost of an answer of the dearest model on the training prompts; 1 USD where nothing costs."""
    dearest = float(np.nan_to_num(np.nanmean(material.task.cost_usd, axis=0)).max())
    return dearest if dearest > 0 else 1.0


def policies_of(bundle: Bundle, kind: str, **settings: list[Any]) -> tuple[RoutedPolicy, ...]:
    """A router of the bundle in these settings."""
    return tuple(_policies(bundle, {"kind": kind, **settings}))


def _policies(bundle: Bundle, spec: dict[str, Any]) -> Iterator[RoutedPolicy]:
    parsed: Any = TypeAdapter(PolicySpec).validate_python(spec)
    for policy in parsed.expand(bundle.models):
        assert isinstance(policy, RoutedPolicy)
        yield policy
