"""Whether routers that look at prices follow them: the pool at other prices, nothing trained again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rbx.config.pool import Pool
from rbx.heads.routers.prices import model_prices_usd
from rbx.report.interval import Interval
from rbx.report.paired import Resampling
from rbx.report.routers.contender import Contender
from rbx.report.routers.means import PairedMeans
from rbx.report.routers.population import Floats, Ints, Material, answer_costs

Prices = Mapping[str, tuple[float, float]]
OWN = "pool file"


@dataclass(frozen=True)
class PriceRow:
    """One router at one set of prices; ``changed`` and ``quality_change`` are to its choices at the own ones.

    ``cost_usd`` is what its choices cost at these prices, ``saved_usd`` what the choices at the pool's own
    prices would cost here, less that: positive where looking at the prices paid off.
    """

    prices: str
    router: str
    changed: Interval
    quality_change: Interval
    cost_usd: Interval
    saved_usd: Interval


def price_variants(material: Material) -> dict[str, Pool]:
    """The pool with cheapest and dearest model swapped, at one price for all, the dearest at other prices.

    Cheapest and dearest go by the mean cost of an answer on the training prompts.
    """
    pool = material.pool
    price_in, price_out = (1e6 * prices for prices in model_prices_usd(pool))
    own = {model: (float(price_in[k]), float(price_out[k])) for k, model in enumerate(pool.models)}
    by_cost = material.task.cheapest_first
    cheapest, dearest = pool.models[int(by_cost[0])], pool.models[int(by_cost[-1])]
    flat = (float(price_in.mean()), float(price_out.mean()))

    def times(factor: float) -> dict[str, tuple[float, float]]:
        paid_in, paid_out = own[dearest]
        return {**own, dearest: (factor * paid_in, factor * paid_out)}

    return {
        OWN: priced(pool, own),
        "cheapest and dearest swapped": priced(pool, {**own, cheapest: own[dearest], dearest: own[cheapest]}),
        "all at the mean price": priced(pool, dict.fromkeys(own, flat)),
        "dearest × 0.5": priced(pool, times(0.5)),
        "dearest × 2": priced(pool, times(2.0)),
    }


def priced(pool: Pool, usd_per_mtok: Prices) -> Pool:
    """The pool with each model's tokens in and out at these prices, on every tier."""
    tiers = [
        tier.model_copy(
            update={
                "price_in_usd_per_mtok": usd_per_mtok[tier.model][0],
                "price_out_usd_per_mtok": usd_per_mtok[tier.model][1],
            }
        )
        for tier in pool.tiers
    ]
    return pool.model_copy(update={"tiers": tuple(tiers)})


def price_rows(
    contenders: Sequence[Contender], material: Material, resampling: Resampling
) -> tuple[tuple[PriceRow, ...], tuple[str, ...]]:
    """One row a set of prices and router whose choices move with them; then the labels of all others."""
    people = material.population
    variants = price_variants(material)
    costs = {
        name: answer_costs(people.input_tokens, people.output_tokens, pool) for name, pool in variants.items()
    }
    rows = np.arange(people.n)
    columns: list[Floats] = []
    named: list[tuple[str, str]] = []
    unmoved = []
    for contender in contenders:
        chosen: dict[str, Ints] = {
            name: contender.choices(material.bundle, pool, people.asked, people.input_tokens)
            for name, pool in variants.items()
        }
        own = chosen[OWN]
        if all((choices == own).all() for choices in chosen.values()):
            unmoved.append(contender.label)
            continue
        for name, choices in chosen.items():
            if name == OWN:
                continue
            paid, kept = costs[name][rows, choices], costs[name][rows, own]
            gap = people.score[rows, choices] - people.score[rows, own]
            columns += [(choices != own).astype(np.float64), gap, paid, kept - paid]
            named.append((name, contender.label))
    if not columns:
        return (), tuple(unmoved)
    means = PairedMeans(columns, resampling)
    found = tuple(
        PriceRow(*name, *(means.mean(4 * k + part) for part in range(4))) for k, name in enumerate(named)
    )
    return found, tuple(unmoved)
