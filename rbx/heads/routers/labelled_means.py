"""Means over groups of training prompts, as far as there are labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def labelled_means(member: Floats, values: Floats) -> Floats:
    """Means (K, M) of ``values`` (N, M) over the members (N, K) of each group, missing values left out.

    A group without a value in some column holds that column's mean over all.
    """
    known = ~np.isnan(values)
    count = member.T @ known
    total = member.T @ np.where(known, values, 0.0)
    overall = np.broadcast_to(np.nanmean(values, axis=0), total.shape)
    return np.where(count > 0, total / np.maximum(count, 1), overall)


def by_source(sources: tuple[str, ...]) -> tuple[tuple[str, ...], Floats]:
    """The names of the sources, sorted, and which of them each prompt is from, (N, S) of zeros and ones."""
    names = tuple(sorted(set(sources)))
    return names, np.array([[float(source == name) for name in names] for source in sources])
