"""Quality over cost as a router's trade-off is turned: its operating points, and the area under them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rbx.heads.routers.matrix_factorisation import MatrixFactorisation
from rbx.report.interval import Interval, not_estimable
from rbx.report.paired import Resampling, from_replicates
from rbx.report.routers.allocation import Allocation, one_each
from rbx.report.routers.contender import (
    QUALITY_SCORED,
    Contender,
    plain_contenders,
    policies_of,
    weighing_cost,
)
from rbx.report.routers.hull_area import hull, mean_heights
from rbx.report.routers.means import PairedMeans
from rbx.report.routers.population import Floats, Material

STEPS = 21
ZERO_ROUTER = "single models, mixed at random"
# In score per mean cost of the dearest model's answer: from next to nothing to what only thrift survives.
_COST_WEIGHTS = (0.0, *np.geomspace(1e-3, 30.0, 24).tolist())


@dataclass(frozen=True)
class Curve:
    """A router at each value of its trade-off. Costs are USD a request; K settings.

    ``area`` is AIQ, the mean quality of its hull between the costs of the cheapest and the dearest model;
    ``against_singles`` its difference to the hull of the single models, which no router is needed for.
    ``corners`` are the hull's, (cost, quality).
    """

    label: str
    trade_off: str
    settings: tuple[str, ...]
    cost_usd: tuple[Interval, ...]
    quality: tuple[Interval, ...]
    area: Interval
    against_singles: Interval
    corners: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class _Swept:
    label: str
    trade_off: str
    points: tuple[Allocation, ...]


def curves(material: Material, asking: Sequence[Allocation], resampling: Resampling) -> tuple[Curve, ...]:
    """One curve a router that has a trade-off, and that of the single models last; none without costs.

    ``asking`` is the cascade at each budget, if there is one.
    """
    people = material.population
    if not people.n_priced:
        return ()
    m = len(people.models)
    singles = _Swept(
        ZERO_ROUTER,
        "model",
        tuple(one_each(model, "single", np.full(people.n, k), m) for k, model in enumerate(people.models)),
    )
    cascade = [_Swept("cascade", "mean budget", tuple(asking))] if asking else []
    swept = (singles, *_sweeps(material), *cascade)
    columns = [
        column
        for each in swept
        for point in each.points
        for column in (point.paid_usd(people), point.gained(people))
    ]
    means = PairedMeans(columns, resampling)
    at = np.cumsum([0, *(2 * len(each.points) for each in swept)])
    rows = [(np.arange(at[k], at[k + 1], 2), np.arange(at[k] + 1, at[k + 1], 2)) for k in range(len(swept))]
    costs, qualities = rows[0]
    cheapest, dearest = costs[means.values[costs].argmin()], costs[means.values[costs].argmax()]
    ends = (int(cheapest), int(dearest))
    base = _areas(means, costs, qualities, ends)
    found = [_curve(each, means, *rows[k], ends, base, people.n) for k, each in enumerate(swept)]
    return (*found[1:], found[0])


def _curve(
    swept: _Swept,
    means: PairedMeans,
    costs: np.ndarray[tuple[int], np.dtype[np.int64]],
    qualities: np.ndarray[tuple[int], np.dtype[np.int64]],
    ends: tuple[int, int],
    base: Floats,
    n: int,
) -> Curve:
    areas = _areas(means, costs, qualities, ends)
    x, y = _with_cheapest(means.values[:, None], costs, qualities, ends[0])
    corners = hull(x[:, 0], y[:, 0])
    return Curve(
        label=swept.label,
        trade_off=swept.trade_off,
        settings=tuple(point.label for point in swept.points),
        cost_usd=tuple(means.mean(int(row)) for row in costs),
        quality=tuple(means.mean(int(row)) for row in qualities),
        area=_interval(areas, n),
        against_singles=_interval(areas - base, n, scale=abs(float(base[0]))),
        corners=tuple(zip(corners[0].tolist(), corners[1].tolist(), strict=True)),
    )


def _interval(areas: Floats, n: int, scale: float = 0.0) -> Interval:
    """The first area is that of the data, the others those of the resamples."""
    if np.isnan(areas[0]):
        return not_estimable(np.nan, "all models cost the same, so that there is no cost to trade off")
    return from_replicates(float(areas[0]), areas[1:], n, scale=scale)


def _areas(
    means: PairedMeans,
    costs: np.ndarray[tuple[int], np.dtype[np.int64]],
    qualities: np.ndarray[tuple[int], np.dtype[np.int64]],
    ends: tuple[int, int],
) -> Floats:
    """AIQ of the data and of each resample, (1 + B,)."""
    drawn = np.concatenate([means.values[:, None], means.replicates], axis=1)
    x, y = _with_cheapest(drawn, costs, qualities, ends[0])
    return np.asarray(mean_heights(x, y, drawn[ends[0]], drawn[ends[1]]))


def _with_cheapest(
    drawn: Floats,
    costs: np.ndarray[tuple[int], np.dtype[np.int64]],
    qualities: np.ndarray[tuple[int], np.dtype[np.int64]],
    cheapest: int,
) -> tuple[Floats, Floats]:
    """A curve's points and the cheapest model's own, (1 + K, …) each."""
    return drawn[[cheapest, *costs]], drawn[[cheapest + 1, *qualities]]


def _sweeps(material: Material) -> Iterator[_Swept]:
    """Routers with a trade-off of their own; those that predict quality also with a weight on cost."""
    bundle = material.bundle
    if "avengers-pro" in bundle.routers:
        weights = np.linspace(0.0, 1.0, STEPS).round(4).tolist()
        policies = policies_of(bundle, "avengers-pro", performance_weight=weights)
        yield _swept("avengers-pro", "p_w", [Contender(policy) for policy in policies], material)
    factors = bundle.routers.get("matrix-factorisation")
    if isinstance(factors, MatrixFactorisation):
        chances = factors.strong_wins(material.task.embeddings)
        inner = np.quantile(chances, np.linspace(0.0, 1.0, STEPS)[1:-1])
        thresholds = np.unique([0.0, *inner.tolist(), 1.0]).tolist()
        policies = policies_of(bundle, "matrix-factorisation", threshold=thresholds)
        yield _swept("matrix-factorisation", "threshold", [Contender(p) for p in policies], material)
    for plain in plain_contenders(bundle):
        if plain.name in QUALITY_SCORED:
            weighed = [weighing_cost(plain, weight, material) for weight in _COST_WEIGHTS]
            yield _swept(f"{plain.name} − λ·cost", "λ", weighed, material)


def _swept(label: str, trade_off: str, settings: Sequence[Contender], material: Material) -> _Swept:
    people = material.population
    m = len(people.models)
    points = []
    for contender in settings:
        choices = contender.choices(material.bundle, material.pool, people.asked, people.input_tokens)
        points.append(one_each(contender.label, "router", choices, m))
    return _Swept(label, trade_off, tuple(points))
