"""Leave one source out: what routers are worth on prompts of a kind that they have never seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rbx.report.interval import Interval
from rbx.report.paired import Resampling
from rbx.report.routers.allocation import BEST_SINGLE, best_single
from rbx.report.routers.contender import Contender
from rbx.report.routers.means import PairedMeans
from rbx.report.routers.population import Floats, Material
from rbx.report.routers.retraining import Learnt, Variant


@dataclass(frozen=True)
class HeldOutRow:
    """One router on one source's n test prompts: trained on everything, and without that source.

    ``against_single`` is its quality without the source less that of the model which is best on what is left.
    """

    source: str
    router: str
    n: int
    full: Interval
    without: Interval
    difference: Interval
    against_single: Interval


def source_variants(material: Material) -> tuple[Variant, ...]:
    """The training prompts without each source that both splits have; none where there is only one."""
    sources = np.array(material.task.sources)
    shared = [source for source in material.population.sources if (sources == source).any()]
    if len(set(material.task.sources)) < 2:
        return ()
    return tuple(
        Variant(source, material.task.rows(np.flatnonzero(sources != source).astype(np.int64)))
        for source in shared
        if (sources != source).any()
    )


def held_out_rows(
    contenders: Sequence[Contender],
    material: Material,
    full: Learnt,
    variants: Sequence[Variant],
    learnt: Sequence[Learnt],
    resampling: Resampling,
) -> tuple[HeldOutRow, ...]:
    """One row a source and router, and one of the best single model beside them."""
    people = material.population
    columns: list[Floats] = []
    named: list[tuple[str, str, int]] = []
    for variant, without in zip(variants, learnt, strict=True):
        own = people.prompt_sources == variant.name
        alone = people.score[:, best_single(without.task)]
        pairs = [
            (c.label, _gained(c, full, material), _gained(c, without, material))
            for c in contenders
            if full.knows(c) and without.knows(c)
        ]
        pairs.append((BEST_SINGLE, people.score[:, best_single(full.task)], alone))
        for label, trained, retrained in pairs:
            columns += [np.where(own, each, np.nan) for each in (trained, retrained, alone)]
            named.append((variant.name, label, int(own.sum())))
    if not columns:
        return ()
    means = PairedMeans(columns, resampling)
    return tuple(
        HeldOutRow(
            *name,
            means.mean(3 * k),
            means.mean(3 * k + 1),
            means.difference(3 * k + 1, 3 * k),
            means.difference(3 * k + 1, 3 * k + 2),
        )
        for k, name in enumerate(named)
    )


def _gained(contender: Contender, learnt: Learnt, material: Material) -> Floats:
    people = material.population
    choices = contender.choices(learnt.bundle, material.pool, people.asked, people.input_tokens)
    return np.asarray(people.score[np.arange(people.n), choices])
