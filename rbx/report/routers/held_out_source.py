"""Leave one source out: what routers are worth on prompts of a kind that they have never seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rbx.errors import BundleError
from rbx.heads.routers.task import RouterTask
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


def source_variants(material: Material) -> tuple[tuple[Variant, ...], tuple[str, ...]]:
    """The training prompts without each source that both splits have; none where there is only one.

    Then in words the sources without which too little is left to learn from.
    """
    known = set(material.task.sources)
    found: list[Variant] = []
    refused: list[str] = []
    for source in material.population.sources if len(known) > 1 else ():
        if source not in known:
            continue
        try:
            found.append(Variant(source, _without(material.task, source)))
        except BundleError as error:
            refused.append(f"No router could be trained without the source {source}: {error}")
    return tuple(found), tuple(refused)


def _without(task: RouterTask, source: str) -> RouterTask:
    left = task.rows(np.flatnonzero(np.array(task.sources) != source).astype(np.int64))
    if unknown := [
        m for m, length in zip(left.models, left.output_tokens.T, strict=True) if np.isnan(length).all()
    ]:
        raise BundleError(f"no training prompt has the length of an answer by {', '.join(unknown)}")
    return left


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
