"""Paired bootstrap over prompts: one set of resamples for every cell of a workload.

A resample draws P prompts with replacement from the workload's P prompts, and each drawn prompt
brings *all* its requests: of every policy, seed and repeat. Thus seeds and repeats are clustered
by prompt, and two cells are compared within the same resample (the pairing). A mean over requests
is the ratio Σ c_p·s_p / Σ c_p·n_p of per-prompt sums and counts, where c_p counts how often the
resample drew prompt p; for all cells at once that is a product of matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rbx.errors import StatisticsError
from rbx.report.tails import tail_quantiles

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Counts = NDArray[np.uint16]

_ROWS_PER_CHUNK = 500
LEVEL = 0.95


@dataclass(frozen=True)
class RatioColumns:
    """K means over requests as per-prompt sums and counts, each of shape (P, K)."""

    sums: Floats
    counts: Floats

    def values(self) -> Floats:
        """The K means on the data itself; NaN where nothing is counted."""
        return _ratio(self.sums.sum(axis=0), self.counts.sum(axis=0))

    def prompts(self) -> Ints:
        """How many prompts count in each of the K means."""
        return np.asarray(np.count_nonzero(self.counts, axis=0), dtype=np.int64)


@dataclass(frozen=True)
class TailColumn:
    """Values of one cell's requests, largest first, and the prompt of each; both of shape (N,)."""

    values: Floats
    prompts: Ints

    def per_prompt(self, n_prompts: int) -> Floats:
        """How many values each prompt has, shape (P,)."""
        return np.bincount(self.prompts, minlength=n_prompts).astype(np.float64)

    @classmethod
    def of(cls, values: Floats, prompts: Ints) -> TailColumn:
        """Sort, leaving out NaN."""
        known = np.flatnonzero(np.isfinite(values))
        order = known[np.argsort(-values[known], kind="stable")]
        return cls(values[order], prompts[order])


@dataclass(frozen=True)
class Replicates:
    """Statistics of B resamples: ``means`` of shape (K, B), ``tails`` of shape (T, Q, B)."""

    means: Floats
    tails: Floats


def resample_counts(n_prompts: int, n_resamples: int, seed: int, first_chunk: int = 0) -> Iterator[Counts]:
    """Chunks (rows, P) of how often each prompt was drawn; B rows in all, the same for a seed.

    Chunks before ``first_chunk`` are drawn, since each goes on from the one before it, but not counted.
    """
    rng = np.random.default_rng(seed)
    for chunk, start in enumerate(range(0, n_resamples, _ROWS_PER_CHUNK)):
        rows = min(_ROWS_PER_CHUNK, n_resamples - start)
        drawn = rng.integers(0, n_prompts, size=(rows, n_prompts), dtype=np.int64)
        if chunk < first_chunk:
            continue
        drawn += np.arange(rows, dtype=np.int64)[:, None] * n_prompts
        counts = np.bincount(drawn.ravel(), minlength=rows * n_prompts)
        yield counts.astype(np.uint16).reshape(rows, n_prompts)


@dataclass(frozen=True)
class ResamplingTask:
    """What is taken of every resample: the same in whatever shards of chunks it is done.

    ``sums`` (P, K) are centred by ``centres`` (K,). ``weights`` are the distinct vectors of per-prompt
    counts, ``which`` says the one of each mean, then of each tail.
    """

    sums: Floats
    centres: Floats
    weights: Floats
    which: Ints
    tails: list[TailColumn]
    quantiles: tuple[float, ...]
    n_resamples: int
    seed: int

    @property
    def n_chunks(self) -> int:
        """How many chunks there are; each has its own place among the replicates."""
        return -(-self.n_resamples // _ROWS_PER_CHUNK)

    def take(self, first: int, last: int) -> Replicates:
        """The replicates of chunks ``first`` to ``last``, without the latter."""
        n_prompts, n_means = self.sums.shape
        n_rows = min(last * _ROWS_PER_CHUNK, self.n_resamples) - first * _ROWS_PER_CHUNK
        means = np.empty((n_means, n_rows))
        tail = np.empty((len(self.tails), len(self.quantiles), n_rows))
        drawn_chunks = resample_counts(n_prompts, first * _ROWS_PER_CHUNK + n_rows, self.seed, first)
        start = 0
        with ThreadPoolExecutor() as threads:
            for counts in drawn_chunks:
                rows = slice(start, start + len(counts))
                drawn = counts.astype(np.float64)
                totals = self.weights @ drawn.T
                of_means, of_tails = totals[self.which[:n_means]], totals[self.which[n_means:]]
                means[:, rows] = _ratio(self.sums.T @ drawn.T, of_means) + self.centres[:, None]
                chunk = partial(_tail_chunk, counts, self.quantiles)
                for index, found in enumerate(threads.map(chunk, self.tails, of_tails)):
                    tail[index, :, rows] = found
                start = rows.stop
        return Replicates(means, tail)


Runner = Callable[[ResamplingTask], Replicates]


def run_here(task: ResamplingTask) -> Replicates:
    """All chunks one after the other in this process."""
    return task.take(0, task.n_chunks)


def replicate(
    columns: RatioColumns,
    tails: list[TailColumn],
    quantiles: tuple[float, ...],
    *,
    n_resamples: int,
    seed: int,
    run: Runner = run_here,
) -> Replicates:
    """Every mean and tail quantile on every resample; ``run`` says where.

    Quantiles interpolate linearly between order statistics, as ``numpy.percentile`` does. A
    resample without any value gives NaN. Raises ``StatisticsError`` on unusable input.
    """
    n_prompts = len(columns.sums)
    if n_prompts < 1 or n_resamples < 1:
        raise StatisticsError(f"can't draw {n_resamples} resamples of {n_prompts} prompts")
    if not (np.isfinite(columns.sums).all() and np.isfinite(columns.counts).all()):
        raise StatisticsError(
            "per-prompt sums hold NaN or infinity; leave such requests out of sum and count"
        )
    # Centring keeps the rounding error relative to the spread, not to the level of the values.
    centres = np.nan_to_num(columns.values(), nan=0.0)
    centred = columns.sums - centres * columns.counts
    weights, which = distinct([*columns.counts.T, *(tail.per_prompt(n_prompts) for tail in tails)])
    return run(ResamplingTask(centred, centres, weights, which, tails, quantiles, n_resamples, seed))


def distinct(vectors: list[Floats]) -> tuple[Floats, Ints]:
    """Most cells count the same requests: the distinct vectors, and which of them each one is."""
    seen: dict[bytes, int] = {}
    which = np.array([seen.setdefault(vector.tobytes(), len(seen)) for vector in vectors], dtype=np.int64)
    _, first = np.unique(which, return_index=True)
    return np.array([vectors[index] for index in first]), which


def _tail_chunk(counts: Counts, quantiles: tuple[float, ...], tail: TailColumn, totals: Floats) -> Floats:
    return tail_quantiles(counts, totals, tail.values, tail.prompts, quantiles)


def bounds(replicates: Floats, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Percentile bounds along the last axis; NaN where any replicate is NaN."""
    out = (1 - level) / 2
    low, high = np.quantile(replicates, [out, 1 - out], axis=-1)
    return low, high


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    empty = denominator == 0
    return np.where(empty, np.nan, numerator / np.where(empty, 1.0, denominator))
