"""What wrong training labels cost: a share of them is falsified, and routers learn from that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rbx.heads.routers.task import RouterTask
from rbx.report.interval import Interval
from rbx.report.paired import Resampling
from rbx.report.routers.contender import Contender
from rbx.report.routers.means import PairedMeans
from rbx.report.routers.population import Floats, Material
from rbx.report.routers.retraining import Learnt, Variant

RATES = (0.0, 0.05, 0.10, 0.20)


@dataclass(frozen=True)
class LabelNoiseRow:
    """One router trained on labels of which ``rate`` are wrong, judged on the true labels of test prompts.

    ``difference`` and ``changed`` (the share of prompts that get another model) are to true labels.
    """

    router: str
    rate: float
    quality: Interval
    difference: Interval
    changed: Interval


def noise_variants(material: Material, seed: int) -> tuple[Variant, ...]:
    """The training labels as they are, and with each share of them falsified."""
    return tuple(Variant(f"{rate:g}", falsified(material.task, rate, seed)) for rate in RATES)


def falsified(task: RouterTask, rate: float, seed: int) -> RouterTask:
    """The task with ``rate`` of each model's labels wrong; a higher rate keeps what a lower one falsified.

    Labels of 0 and 1 are turned around; of graded ones, those drawn are permuted among their prompts.
    """
    known = ~np.isnan(task.score)
    is_graded = not np.isin(task.score[known], (0.0, 1.0)).all()
    rng = np.random.default_rng([seed, 1])
    draws, order = rng.random(task.score.shape), rng.random(task.score.shape)
    score = task.score.copy()
    for model in range(task.n_models):
        rows = np.flatnonzero(known[:, model])
        struck = rows[np.argsort(draws[rows, model], kind="stable")][: round(rate * len(rows))]
        if is_graded:
            shuffled = struck[np.argsort(order[struck, model], kind="stable")]
            score[struck, model] = task.score[shuffled, model]
        else:
            score[struck, model] = 1.0 - task.score[struck, model]
    return replace(task, score=score)


def label_noise_rows(
    contenders: Sequence[Contender], material: Material, learnt: Sequence[Learnt], resampling: Resampling
) -> tuple[LabelNoiseRow, ...]:
    """One row a router and rate; ``learnt`` follows ``RATES``."""
    people = material.population
    asked = [c for c in contenders if all(each.knows(c) for each in learnt)]
    columns: list[Floats] = []
    for contender in asked:
        chosen = [
            contender.choices(each.bundle, material.pool, people.asked, people.input_tokens)
            for each in learnt
        ]
        for choices in chosen:
            columns.append(people.score[np.arange(people.n), choices])
            columns.append((choices != chosen[0]).astype(np.float64))
    if not columns:
        return ()
    means = PairedMeans(columns, resampling)
    rows = []
    for index, contender in enumerate(asked):
        first = 2 * len(RATES) * index
        for step, rate in enumerate(RATES):
            at = first + 2 * step
            rows.append(
                LabelNoiseRow(
                    contender.label, rate, means.mean(at), means.difference(at, first), means.mean(at + 1)
                )
            )
    return tuple(rows)
