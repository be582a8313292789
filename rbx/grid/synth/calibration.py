"""How close a synthetic grid comes to the published marginals it was calibrated to.

Figures of RouteBalance (arXiv 2606.17949) or BEAR (arXiv 2607.18253); "derived" ones follow from several of
them, as docs/datasets.md shows. How often KNN picks the best model (34.8 % in RouteBalance) needs an encoder:
``rbx train`` says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbx.grid.schema import GridView
from rbx.grid.synth import bear_preset, routebalance_preset

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Table 1: instances, and USD per million tokens in the authors' accounting, one price for both sides.
INSTANCES = np.array([3.0, 5.0, 3.0, 2.0])
PRICE_USD_PER_MTOK = np.array([0.06, 0.07, 0.15, 0.40])


class Target(NamedTuple):
    """A published figure, what the grid has, and where the figure is from."""

    name: str
    published: float
    achieved: float
    source: str


def calibration(view: GridView, split: str = "all") -> list[Target]:
    """Targets against what a synthetic view holds; empty for a grid of other models or an empty split."""
    rows = view.rows(split)
    if not len(rows):
        return []
    if set(view.models) == set(routebalance_preset.MODELS):
        return _routebalance(view, rows)
    if set(view.models) == set(bear_preset.MODELS):
        return _bear(view, rows)
    return []


def _columns(view: GridView, models: tuple[str, ...]) -> Ints:
    return np.array([view.models.index(model) for model in models])


def _routebalance(view: GridView, rows: Ints) -> list[Target]:
    columns = _columns(view, routebalance_preset.MODELS)
    score = view.score[np.ix_(rows, columns)]
    tokens = view.input_tokens[rows, None] + view.output_tokens[np.ix_(rows, columns)]
    mean, cost_usd = score.mean(axis=0), (tokens * PRICE_USD_PER_MTOK).mean(axis=0) / 1e6
    return [
        Target("mean score, always 3B", 0.346, float(mean[0]), "published"),
        Target("mean score, always 7B", 0.332, float(mean[1]), "derived"),
        Target("mean score, always 14B", 0.398, float(mean[2]), "published"),
        Target("mean score, always 72B", 0.412, float(mean[3]), "derived"),
        Target("mean score, random instance", 0.3627, _over_instances(mean), "published"),
        Target("mean score, oracle", 0.582, float(score.max(axis=1).mean()), "published"),
        Target("share of zero scores", 0.24, float((score == 0).mean()), "published"),
        Target("USD per request, always 3B", 1.67e-5, float(cost_usd[0]), "published"),
        Target("USD per request, random instance", 4.01e-5, _over_instances(cost_usd), "published"),
    ]


def _bear(view: GridView, rows: Ints) -> list[Target]:
    """Mean score of each task and model, and of each model over the tasks, as many prompts of each."""
    columns = _columns(view, bear_preset.MODELS)
    sources = np.array(view.sources)[rows]
    targets = []
    for task, published in bear_preset.PUBLISHED_MEAN.items():
        of_task = rows[sources == f"synthetic/{task}"]
        if not len(of_task):
            continue
        mean = view.score[np.ix_(of_task, columns)].mean(axis=0)
        targets += [
            Target(f"mean score, {task}, {model}", figure, float(achieved), "published")
            for model, figure, achieved in zip(bear_preset.MODELS, published, mean, strict=True)
        ]
    overall = view.score[np.ix_(rows, columns)].mean(axis=0)
    return targets + [
        Target(f"mean score, all, {model}", figure, float(achieved), "published")
        for model, figure, achieved in zip(
            bear_preset.MODELS, bear_preset.PUBLISHED_OVERALL, overall, strict=True
        )
    ]


def _over_instances(values: Floats) -> float:
    return float(values @ INSTANCES / INSTANCES.sum())
