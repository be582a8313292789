"""Which models a cascade asks in which order, and how good an answer must be to end it.

FrugalGPT (arXiv 2305.05176, section 3) maximises the expected score under a budget over lists of models and
thresholds; models stand in the order of their cost here, at most three of them, as in the paper's case study.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbx.errors import BundleError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LONGEST = 3
LEVELS = 19  # thresholds tried for a model: quantiles of its answers' scores
FEWEST = 20


@dataclass(frozen=True)
class Chain:
    """Indices of ``models`` in the order of asking; an answer whose score reaches its model's threshold ends
    it. The last model has no threshold. ``quality`` and ``cost_usd`` are means over training prompts."""

    models: tuple[int, ...]
    thresholds: tuple[float, ...]
    quality: float
    cost_usd: float

    def after(self, model: int, answer_score: float) -> int | None:
        """Whom to ask once ``model`` has answered with this score; None where its answer is good enough."""
        at = self.models.index(model)
        if at == len(self.thresholds) or answer_score >= self.thresholds[at]:
            return None
        return self.models[at + 1]

    def last_asked(self, answer_score: Floats) -> Ints:
        """Whose answer counts, (P,), by the scores of all answers (P, M)."""
        found = np.full(len(answer_score), self.models[-1], dtype=np.int64)
        for model, threshold in reversed(tuple(zip(self.models, self.thresholds, strict=False))):
            found[answer_score[:, model] >= threshold] = model
        return found

    def asked(self, answer_score: Floats) -> NDArray[np.bool_]:
        """Who is asked on the way there, (P, M)."""
        found = np.zeros(answer_score.shape, dtype=np.bool_)
        going_on = np.ones(len(answer_score), dtype=np.bool_)
        for model, threshold in zip(self.models, (*self.thresholds, 0.0), strict=True):
            found[:, model] = going_on
            going_on = going_on & (answer_score[:, model] < threshold)
        return found

    def as_json(self) -> dict[str, Any]:
        """Plain data, for ``Chain.of``."""
        return {
            "models": list(self.models),
            "thresholds": list(self.thresholds),
            "quality": self.quality,
            "cost_usd": self.cost_usd,
        }

    @classmethod
    def of(cls, data: dict[str, Any]) -> Chain:
        """Of what ``as_json`` gave."""
        return cls(tuple(data["models"]), tuple(data["thresholds"]), data["quality"], data["cost_usd"])


class Tried(NamedTuple):
    """Answers of M models to N training prompts, all (N, M): the answer's score, its label, its cost."""

    answer_score: Floats
    score: Floats
    cost_usd: Floats

    def complete(self) -> Tried:
        """The prompts of which everything is known; raises ``BundleError`` where they are too few."""
        known = np.flatnonzero(np.isfinite(np.concatenate(self, axis=1)).all(axis=1))
        if len(known) < FEWEST:
            raise BundleError(
                f"router cascade: only {len(known)} training prompts have text, score and length of every "
                f"model's answer; at least {FEWEST} are needed"
            )
        return Tried(*(column[known] for column in self))


def best_within(tried: Tried, mean_budget_usd: float) -> Chain:
    """The chain of the highest mean quality that costs at most this much on average.

    Where none does it is the cheapest single model.
    """
    known = tried.complete()
    within = [
        chain
        for grid in _grids(known)
        if (chain := grid.best(np.where(grid.cost_usd <= mean_budget_usd, grid.quality, -np.inf)))
    ]
    if within:
        return max(within, key=lambda chain: (chain.quality, -chain.cost_usd))
    return min((grid.at(()) for grid in _of_one(known)), key=lambda chain: (chain.cost_usd, -chain.quality))


def best_tradeoff(tried: Tried, cost_weight_per_usd: float) -> Chain:
    """The chain of the highest mean quality less ``cost_weight_per_usd`` times its mean cost."""
    found = [
        chain
        for grid in _grids(tried.complete())
        if (chain := grid.best(grid.quality - cost_weight_per_usd * grid.cost_usd))
    ]
    return max(found, key=lambda chain: chain.quality - cost_weight_per_usd * chain.cost_usd)


class _Grid(NamedTuple):
    """One list of models with every combination of thresholds: an axis a threshold, along ``levels``."""

    models: tuple[int, ...]
    levels: tuple[Floats, ...]
    quality: Floats
    cost_usd: Floats

    def at(self, where: tuple[int, ...]) -> Chain:
        """The chain at one place of the grid."""
        thresholds = tuple(float(axis[at]) for axis, at in zip(self.levels, where, strict=True))
        return Chain(self.models, thresholds, float(self.quality[where]), float(self.cost_usd[where]))

    def best(self, worth: Floats) -> Chain | None:
        """The place worth most, the cheapest of several; None where nothing is worth anything."""
        if not np.isfinite(worth).any():
            return None
        best = np.flatnonzero(worth.ravel() == worth.max())
        flat = int(best[self.cost_usd.ravel()[best].argmin()])
        return self.at(tuple(int(axis) for axis in np.unravel_index(flat, worth.shape)))


def _grids(tried: Tried) -> Iterator[_Grid]:
    """Every list of up to ``LONGEST`` models in order of cost."""
    yield from _of_one(tried)
    quantiles = np.arange(1, LEVELS + 1) / (LEVELS + 1)
    levels = [np.unique(column) for column in np.quantile(tried.answer_score, quantiles, axis=0).T]
    order = np.argsort(tried.cost_usd.mean(axis=0), kind="stable").tolist()
    for length in range(2, LONGEST + 1):
        for models in combinations(order, length):
            yield _grid(tried, models, tuple(levels[model] for model in models[:-1]))


def _of_one(tried: Tried) -> Iterator[_Grid]:
    for model in range(tried.score.shape[1]):
        means = tried.score[:, model].mean(), tried.cost_usd[:, model].mean()
        yield _Grid((model,), (), *(np.asarray(mean) for mean in means))


def _grid(tried: Tried, models: tuple[int, ...], levels: tuple[Floats, ...]) -> _Grid:
    """Means over prompts of the last answer's quality and of the cost of all answers up to it."""
    n = len(tried.score)
    first, second = models[:2]
    # Whether one goes on to the next model, by threshold and prompt: the paths are products of these.
    on = (tried.answer_score[:, first] < levels[0][:, None]).astype(np.float64)
    quality = (1.0 - on) @ tried.score[:, first] / n
    cost = tried.cost_usd[:, first].mean() + on @ tried.cost_usd[:, second] / n
    if len(models) == 2:
        return _Grid(models, levels, quality + on @ tried.score[:, second] / n, cost)
    third = models[2]
    further = (tried.answer_score[:, second] < levels[1][:, None]).astype(np.float64)
    reached = np.where(further, tried.score[:, third], tried.score[:, second])
    return _Grid(
        models,
        levels,
        quality[:, None] + on @ reached.T / n,
        cost[:, None] + on @ (further * tried.cost_usd[:, third]).T / n,
    )
