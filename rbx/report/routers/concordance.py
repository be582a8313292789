"""Whether a model's score is higher on the prompts that it answers better: the concordance index.

Over all pairs of prompts whose labels differ, the share in which the better answered prompt has the higher
score, ties counting half. For labels that are 0 or 1 it is the area under the ROC curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbx.compiled import njit
from rbx.report.bootstrap import Counts
from rbx.report.interval import Interval
from rbx.report.paired import Resampling, from_replicates
from rbx.report.routers.means import PairedMeans, drawn_prompts
from rbx.report.routers.population import Population

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ConcordanceRow:
    """One router: by model (None where its labels are all the same), and the mean over the others.

    The macro mean of a resample is over the models whose labels differ in it. ``tied`` is the share of
    prompts on which several models have the highest score, so that their order in the pool decides.
    """

    router: str
    by_model: tuple[Interval | None, ...]
    macro: Interval
    models: int
    tied: Interval


class _Sorted(NamedTuple):
    order: Ints  # prompts, the lowest score first
    starts: NDArray[np.bool_]  # whether a score begins that is higher than the one before
    level: Ints  # rank of each prompt's label, in that order


def concordance_rows(
    scores: dict[str, Floats], population: Population, resampling: Resampling
) -> tuple[ConcordanceRow, ...]:
    """One row a router of ``scores``: label -> (n, M)."""
    columns = [
        _sorted(score[:, model], population.score[:, model])
        for score in scores.values()
        for model in range(len(population.models))
    ]
    whole = np.ones((1, population.n), dtype=np.uint16)
    values = np.array([_concordances(whole, *column)[0] for column in columns])
    replicates = _replicates(columns, population.n, resampling)
    m = len(population.models)
    ties = PairedMeans([_is_tied(score) for score in scores.values()], resampling)
    return tuple(
        _row(router, values[k * m : (k + 1) * m], replicates[k * m : (k + 1) * m], ties.mean(k), population.n)
        for k, router in enumerate(scores)
    )


def _is_tied(score: Floats) -> Floats:
    highest = score == score.max(axis=1, keepdims=True)
    return np.asarray(highest.sum(axis=1) > 1, dtype=np.float64)


def concordance(score: Floats, label: Floats) -> float:
    """The index of one model's scores (n,) and labels (n,); NaN where no two labels differ."""
    return float(_concordances(np.ones((1, len(score)), dtype=np.uint16), *_sorted(score, label))[0])


def _row(router: str, values: Floats, replicates: Floats, tied: Interval, n: int) -> ConcordanceRow:
    known = np.flatnonzero(~np.isnan(values))
    by_model = tuple(
        None if np.isnan(value) else from_replicates(float(value), drawn, n)
        for value, drawn in zip(values, replicates, strict=True)
    )
    macro = float(values[known].mean()) if len(known) else np.nan
    return ConcordanceRow(
        router, by_model, from_replicates(macro, _mean_of_known(replicates[known]), n), len(known), tied
    )


def _mean_of_known(replicates: Floats) -> Floats:
    """Over the models (axis 0) that a resample tells anything of; NaN where it tells of none."""
    known = ~np.isnan(replicates)
    count = known.sum(axis=0)
    total = np.where(known, replicates, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _replicates(columns: Sequence[_Sorted], n: int, resampling: Resampling) -> Floats:
    found = np.empty((len(columns), resampling.n_resamples))
    start = 0
    with ThreadPoolExecutor() as threads:
        for counts in drawn_prompts(n, resampling):

            def of(column: _Sorted, counts: Counts = counts) -> Floats:
                return _concordances(counts, *column)

            rows = slice(start, start + len(counts))
            for index, drawn in enumerate(threads.map(of, columns)):
                found[index, rows] = drawn
            start = rows.stop
    return found


def _sorted(score: Floats, label: Floats) -> _Sorted:
    order = np.argsort(score, kind="stable").astype(np.int64)
    ascending = score[order]
    starts = np.concatenate([[True], ascending[1:] > ascending[:-1]])
    level = np.unique(label, return_inverse=True)[1].astype(np.int64)
    return _Sorted(order, starts, level[order])


@njit(cache=True, nogil=True)
def _concordances(counts: Counts, order: Ints, starts: NDArray[np.bool_], level: Ints) -> Floats:
    """The index in each resample, (R,); ``counts`` (R, n) says how often each prompt was drawn."""
    n_levels = level.max() + 1
    found = np.empty(len(counts))
    lower = np.zeros(n_levels + 1)  # Fenwick tree: prompts of lower score, by level
    tied = np.zeros(n_levels)  # prompts of the same score, by level
    overall = np.zeros(n_levels)
    for row in range(len(counts)):
        lower[:], overall[:] = 0.0, 0.0
        concordant, ties, begun = 0.0, 0.0, 0
        for at in range(len(order) + 1):
            if at == len(order) or (starts[at] and at > begun):
                group = 0.0
                for each in range(begun, at):
                    weight, own = float(counts[row, order[each]]), level[each]
                    if weight == 0.0:
                        continue
                    ties += weight * (group - tied[own])
                    group += weight
                    tied[own] += weight
                    node = own
                    while node > 0:
                        concordant += weight * lower[node]
                        node -= node & -node
                for each in range(begun, at):
                    weight, own = float(counts[row, order[each]]), level[each]
                    tied[own] = 0.0
                    overall[own] += weight
                    node = own + 1
                    while node <= n_levels and weight > 0.0:
                        lower[node] += weight
                        node += node & -node
                begun = at
        pairs = 0.5 * (overall.sum() ** 2 - (overall**2).sum())
        found[row] = (concordant + 0.5 * ties) / pairs if pairs > 0.0 else np.nan
    return found
