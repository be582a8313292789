"""What each router's choices are worth and cost, and how often they are a best one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rbx.report.interval import Interval
from rbx.report.paired import Resampling
from rbx.report.routers.allocation import BEST_SINGLE, PER_SOURCE, RANDOM, Allocation, Kind
from rbx.report.routers.means import PairedMeans
from rbx.report.routers.population import Floats, Population

AGAINST = (BEST_SINGLE, RANDOM, PER_SOURCE)


@dataclass(frozen=True)
class RoutedRow:
    """One router or reference. Costs are USD a request.

    ``picks_informative`` looks only at prompts on which the models' labels differ. ``against`` holds paired
    differences of quality to three references, ``cost_against`` of cost to the best single model; ``shares``
    (M,) of requests by model; ``by_source`` the quality on each source's prompts.
    """

    label: str
    kind: Kind
    quality: Interval
    cost_usd: Interval
    picks_best: Interval
    picks_informative: Interval
    against: dict[str, Interval]
    cost_against: Interval
    picks_against_random: Interval
    shares: tuple[float, ...]
    by_source: dict[str, Interval]

    @property
    def is_fixed(self) -> bool:
        """Whether one model gets every prompt."""
        return max(self.shares) > 1.0 - 1e-9


def rate_allocations(
    allocations: Sequence[Allocation], population: Population, resampling: Resampling
) -> tuple[RoutedRow, ...]:
    """One row an allocation; the references of ``AGAINST`` must be among them."""
    measures = [_columns(allocation, population) for allocation in allocations]
    width = len(measures[0])
    means = PairedMeans([column for columns in measures for column in columns], resampling)
    at = {allocation.label: index * width for index, allocation in enumerate(allocations)}

    def row(allocation: Allocation) -> RoutedRow:
        first = at[allocation.label]
        return RoutedRow(
            label=allocation.label,
            kind=allocation.kind,
            quality=means.mean(first),
            cost_usd=means.mean(first + 1),
            picks_best=means.mean(first + 2),
            picks_informative=means.mean(first + 3),
            against={name: means.difference(first, at[name]) for name in AGAINST},
            cost_against=means.difference(first + 1, at[BEST_SINGLE] + 1),
            picks_against_random=means.difference(first + 2, at[RANDOM] + 2),
            shares=tuple(allocation.weights.mean(axis=0).tolist()),
            by_source={
                source: means.mean(first + 4 + index) for index, source in enumerate(population.sources)
            },
        )

    return tuple(row(allocation) for allocation in allocations)


def _columns(allocation: Allocation, population: Population) -> list[Floats]:
    gained, hits = allocation.gained(population), allocation.hits(population)
    return [
        gained,
        allocation.paid_usd(population),
        hits,
        np.where(population.is_informative, hits, np.nan),
        *(np.where(population.prompt_sources == source, gained, np.nan) for source in population.sources),
    ]
