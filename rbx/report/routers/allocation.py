"""Who gets which share of a prompt: a router's choice, or a reference that needs no router."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbx.heads.routers.task import RouterTask
from rbx.report.routers.contender import Contender, is_reference
from rbx.report.routers.population import Bools, Material, Population

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Kind = Literal["router", "reference", "single"]

ORACLE = "oracle (sees the labels)"
RANDOM = "random model (expected)"
PER_SOURCE = "per-source best (training)"
BEST_SINGLE = "best single (training)"


class Allocation(NamedTuple):
    """``weights`` (n, M): the chance that each model's answer is the prompt's; rows sum to one.

    ``asked`` (n, M) are the models that are paid, where others answer before the one that counts.
    """

    label: str
    kind: Kind
    weights: Floats
    asked: Floats | None = None

    def gained(self, population: Population) -> Floats:
        """Expected score of each prompt, (n,)."""
        return np.asarray((self.weights * population.score).sum(axis=1))

    def paid_usd(self, population: Population) -> Floats:
        """Expected cost of each prompt, (n,); NaN where unknown."""
        paid = self.weights if self.asked is None else self.asked
        return np.asarray((paid * population.cost_usd).sum(axis=1))

    def hits(self, population: Population) -> Floats:
        """Chance that the choice has the prompt's highest label, (n,)."""
        return np.asarray((self.weights * population.is_best).sum(axis=1))


def one_each(label: str, kind: Kind, choices: Ints, n_models: int) -> Allocation:
    """One model a prompt."""
    return Allocation(label, kind, np.eye(n_models)[choices])


def routed(contender: Contender, material: Material) -> Allocation:
    """What a router chooses for the population; one that is told each prompt's source is a reference."""
    people = material.population
    choices = contender.choices(material.bundle, material.pool, people.asked, people.input_tokens)
    kind: Kind = "reference" if is_reference(contender.label) else "router"
    return one_each(contender.label, kind, choices, len(people.models))


def references(material: Material) -> tuple[Allocation, ...]:
    """Oracle, per-source best, best single and random; then each model alone."""
    people, task = material.population, material.task
    m = len(people.models)
    single = best_single(task)
    return (
        one_each(ORACLE, "reference", _oracle(people), m),
        one_each(PER_SOURCE, "reference", per_source_best(task, people), m),
        one_each(BEST_SINGLE, "reference", np.full(people.n, single), m),
        Allocation(RANDOM, "reference", np.full((people.n, m), 1.0 / m)),
        *(
            one_each(f"always {model}", "single", np.full(people.n, column), m)
            for column, model in enumerate(people.models)
        ),
    )


def best_single(task: RouterTask) -> int:
    """The model of the highest mean label on the training prompts; ties go to the cheaper one."""
    return _best(task, np.ones(len(task.texts), dtype=np.bool_))


def per_source_best(task: RouterTask, population: Population) -> Ints:
    """The same within each prompt's source; the best single one where training knows nothing of it."""
    sources = np.array(task.sources)
    choices = np.full(population.n, best_single(task), dtype=np.int64)
    for source in population.sources:
        own = sources == source
        if own.any():
            choices[population.prompt_sources == source] = _best(task, own)
    return choices


def _best(task: RouterTask, rows: Bools) -> int:
    score = task.score[rows]
    known = ~np.isnan(score)
    mean = np.where(known, score, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    mean[~known.any(axis=0)] = -np.inf
    if not known.any():
        return best_single(task)
    cheap_first = task.cheapest_first
    return int(cheap_first[mean[cheap_first].argmax()])


def _oracle(population: Population) -> Ints:
    """The highest label of each prompt, the cheapest of several; mean costs stand in for unknown ones."""
    cost = population.cost_usd
    known = ~np.isnan(cost[:, 0])
    fallback = cost[known].mean(axis=0) if known.any() else np.zeros(cost.shape[1])
    cost = np.where(known[:, None], cost, fallback)
    return np.asarray(np.where(population.is_best, cost, np.inf).argmin(axis=1), dtype=np.int64)
