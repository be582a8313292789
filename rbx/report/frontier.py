"""Which cells are worth having: the non-dominated set and the upper hull of a plane.

``gain`` is better when higher (quality, throughput); a cost such as latency is passed negated. A
cell with NaN in either coordinate takes part in nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def non_dominated(gain: Floats, quality: Floats) -> Bools:
    """Cells that no other cell equals or beats in both coordinates and beats in one; shape (N,).

    Cells with equal coordinates do not dominate each other: all of them stay.
    """
    keep = np.zeros(len(gain), dtype=np.bool_)
    best_quality = -np.inf
    known = np.flatnonzero(np.isfinite(gain) & np.isfinite(quality))
    order = known[np.lexsort((-quality[known], -gain[known]))]
    position = 0
    while position < len(order):
        # Cells of equal gain are judged together: only the best quality among them can stay.
        first = order[position]
        tied = order[position:][gain[order[position:]] == gain[first]]
        if quality[first] > best_quality:
            keep[tied[quality[tied] == quality[first]]] = True
            best_quality = quality[first]
        position += len(tied)
    return keep


def upper_hull(gain: Floats, quality: Floats) -> list[int]:
    """Vertices of the concave frontier, from the highest quality to the highest gain.

    These are the cells that are best for some non-negative weighting of the two coordinates
    (Andrew's monotone chain over the non-dominated cells). Points inside an edge are left out; of
    equal points the first is kept. One or two cells are their own hull; none gives an empty list.
    """
    front = np.flatnonzero(non_dominated(gain, quality))
    order = front[np.lexsort((front, -quality[front], gain[front]))]
    hull: list[int] = []
    for index in map(int, order):
        if hull and gain[hull[-1]] == gain[index] and quality[hull[-1]] == quality[index]:
            continue
        while len(hull) >= 2 and _turn(gain, quality, hull[-2], hull[-1], index) >= 0:
            hull.pop()
        hull.append(index)
    return hull


def _turn(x: Floats, y: Floats, a: int, b: int, c: int) -> float:
    """Cross product of ab and ac: positive for a left turn, zero on a line."""
    return float((x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a]))
