"""How much the neighbours' head depends on k, the number of neighbours that it asks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rbx.heads.knn import KnnHead
from rbx.report.interval import Interval
from rbx.report.paired import Resampling
from rbx.report.routers.means import PairedMeans
from rbx.report.routers.population import Floats, Material

COUNTS = (1, 3, 5, 10, 20, 50, 100)


@dataclass(frozen=True)
class NeighbourRow:
    """The head with ``k`` neighbours; ``difference`` and ``changed`` are to the bundle's own k."""

    k: int
    is_own: bool
    quality: Interval
    difference: Interval
    picks_best: Interval
    changed: Interval


def neighbour_rows(material: Material, resampling: Resampling) -> tuple[NeighbourRow, ...]:
    """One row a count that the training prompts allow, the bundle's own among them."""
    people, knn = material.population, material.bundle.knn
    counts = sorted({k for k in COUNTS if k <= len(knn.embeddings)} | {knn.k})
    own = knn.predict(people.asked.embeddings).quality.argmax(axis=1)
    rows = np.arange(people.n)
    columns: list[Floats] = []
    for k in counts:
        head = KnnHead(knn.embeddings, knn.labels, k)
        choices = head.predict(people.asked.embeddings).quality.argmax(axis=1)
        columns += [
            people.score[rows, choices],
            people.is_best[rows, choices].astype(np.float64),
            (choices != own).astype(np.float64),
        ]
    means = PairedMeans(columns, resampling)
    reference = 3 * counts.index(knn.k)
    return tuple(
        NeighbourRow(
            k,
            k == knn.k,
            means.mean(3 * at),
            means.difference(3 * at, reference),
            means.mean(3 * at + 1),
            means.mean(3 * at + 2),
        )
        for at, k in enumerate(counts)
    )
