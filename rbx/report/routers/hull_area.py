"""Area under the non-decreasing convex hull of points in the plane of cost and quality.

RouterBench (arXiv 2403.12031, section 3): of two operating points every mixture can be had by sending a
random share of requests to each, and whoever has paid more may have the quality of less, so that what a
router offers is the non-decreasing upper hull of its points. AIQ is the mean height of that hull between
two costs. Departure: where the router's cheapest point costs more than the lower end, the caller adds the
cheapest model's own point, since sending a share of requests there needs no router.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.compiled import njit

Floats = NDArray[np.float64]


@njit(cache=True)
def mean_heights(cost: Floats, quality: Floats, low: Floats, high: Floats) -> Floats:
    """Mean height of the hull over [``low``, ``high``] in each of B cases, (B,).

    ``cost`` and ``quality`` (K, B); ``low`` and ``high`` (B,). NaN where the ends do not lie apart, and
    where no point costs at most ``low``.
    """
    found = np.empty(cost.shape[1])
    for case in range(cost.shape[1]):
        x, y = hull(cost[:, case], quality[:, case])
        start, stop = low[case], high[case]
        if not start < stop or len(x) == 0 or x[0] > start:
            found[case] = np.nan
            continue
        area = 0.0
        for k in range(len(x)):
            left = max(x[k], start)
            right = min(x[k + 1] if k + 1 < len(x) else stop, stop)
            if right <= left:
                continue
            slope = (y[k + 1] - y[k]) / (x[k + 1] - x[k]) if k + 1 < len(x) else 0.0
            area += (right - left) * (y[k] + slope * (0.5 * (left + right) - x[k]))
        found[case] = area / (stop - start)
    return found


@njit(cache=True)
def hull(cost: Floats, quality: Floats) -> tuple[Floats, Floats]:
    """Corners of the hull of K points, cost ascending; points with NaN take no part."""
    x, y = np.empty(len(cost)), np.empty(len(cost))
    size = 0
    # Equal costs: the better one last, where it takes the place of the other.
    order = np.argsort(quality, kind="mergesort")
    order = order[np.argsort(cost[order], kind="mergesort")]
    for point in order:
        a, b = cost[point], quality[point]
        if np.isnan(a) or np.isnan(b) or (size and b <= y[size - 1]):
            continue
        if size and a == x[size - 1]:
            size -= 1
        while size >= 2 and (y[size - 1] - y[size - 2]) * (a - x[size - 1]) <= (b - y[size - 1]) * (
            x[size - 1] - x[size - 2]
        ):
            size -= 1
        x[size], y[size] = a, b
        size += 1
    return x[:size], y[:size]
