"""The paired bootstrap of a whole sweep, beside a loop that resamples each pair, and beside scipy.

287 cells × 3,534 prompts × 10,000 resamples, as in the published grid. Ours is measured whole:
four means a cell, p95 and p99 of two latencies, and the intervals of all of these and of their
differences to a baseline. The peers take one metric of a few pairs; their whole is extrapolated
(cells × metrics) and named so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from rbx.report.bootstrap import RatioColumns, TailColumn, bounds, replicate
from rbx.report.paired import MEANS, QUANTILES, TAIL_METRICS

Floats = NDArray[np.float64]

N_CELLS, N_PROMPTS, N_RESAMPLES = 287, 3534, 10_000


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _values(rng: np.random.Generator) -> Floats:
    return rng.lognormal(0.0, 0.7, (N_PROMPTS, N_CELLS * len(MEANS)))


def ours(values: Floats, *, tails: bool) -> None:
    """Every interval of the sweep, each point and each difference to the first cell."""
    columns = RatioColumns(values, np.ones_like(values))
    prompts = np.arange(N_PROMPTS, dtype=np.int64)
    tail_columns = [TailColumn.of(values[:, i], prompts) for i in range(N_CELLS * len(TAIL_METRICS))]
    found = replicate(columns, tail_columns if tails else [], QUANTILES, n_resamples=N_RESAMPLES, seed=0)
    for index, means in enumerate(found.means):
        bounds(means)
        bounds(means - found.means[index % len(MEANS)])
    for index, tail in enumerate(found.tails):
        bounds(tail)
        bounds(tail - found.tails[index % len(TAIL_METRICS)])


def naive_pair(a: Floats, b: Floats) -> None:
    """The plain way: draw prompts, index both cells, take the means; one pair, one metric."""
    rng = np.random.default_rng(0)
    gaps = np.empty(N_RESAMPLES)
    for index in range(N_RESAMPLES):
        drawn = rng.integers(0, N_PROMPTS, N_PROMPTS)
        gaps[index] = a[drawn].mean() - b[drawn].mean()
    np.quantile(gaps, [0.025, 0.975])


def scipy_pair(a: Floats, b: Floats) -> None:
    """scipy.stats.bootstrap over the paired difference, vectorised and batched."""

    def gap(x: Floats, y: Floats, axis: int) -> Floats:
        return np.asarray(x.mean(axis=axis) - y.mean(axis=axis))

    stats.bootstrap((a, b), gap, paired=True, n_resamples=N_RESAMPLES, batch=500, method="percentile", rng=0)


def rows() -> list[dict[str, Any]]:
    """One row a peer: seconds of the whole sweep, ours and the peer's."""
    values = _values(np.random.default_rng(0))
    replicate(  # compile the tail kernel outside the measurement
        RatioColumns(values[:, :1], np.ones((N_PROMPTS, 1))),
        [TailColumn.of(values[:, 0], np.arange(N_PROMPTS, dtype=np.int64))],
        QUANTILES,
        n_resamples=10,
        seed=0,
    )
    pairs = N_CELLS * len(MEANS)
    means_s = _timed(lambda: ours(values, tails=False))
    whole_s = _timed(lambda: ours(values, tails=True))
    found: list[dict[str, Any]] = [
        {
            "path": f"paired bootstrap, {N_CELLS} cells, means and tails",
            "ours": round(whole_s, 2),
            "peer": 15.0,
            "ratio": round(15.0 / whole_s, 2),
            "unit": "s",
            "peer_name": "target of the design",
        }
    ]
    for name, pair in (("numpy loop a pair", naive_pair), ("scipy.stats.bootstrap a pair", scipy_pair)):
        one_s = _timed(lambda pair=pair: pair(values[:, 0], values[:, 1]))  # type: ignore[misc]
        found.append(
            {
                "path": f"paired bootstrap, {N_CELLS} cells × {len(MEANS)} means",
                "ours": round(means_s, 2),
                "peer": round(one_s * pairs, 1),
                "ratio": round(one_s * pairs / means_s, 1),
                "unit": "s",
                "peer_name": f"{name} (1 measured at {one_s:.2f} s, × {pairs} extrapolated)",
            }
        )
    return found


if __name__ == "__main__":
    for row in rows():
        print(
            f"{row['path']}: {row['ours']} {row['unit']} against {row['peer']} {row['unit']}, "
            f"{row['ratio']} ×, {row['peer_name']}"
        )
