"""The compiled part of the nearest-neighbour head: rank again, weight, and average per model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.compiled import njit
from rbx.heads.predictions import LENGTH_BUCKET_TOKENS, N_LENGTH_BUCKETS

EPSILON = 1e-6

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def length_buckets(length_tokens: Floats) -> NDArray[np.int8]:
    """64-token bucket of each length, the last one open-ended; -1 where the length is unknown."""
    known = np.nan_to_num(length_tokens, nan=0.0)
    buckets = np.minimum(known // LENGTH_BUCKET_TOKENS, N_LENGTH_BUCKETS - 1).astype(np.int8)
    return np.where(np.isnan(length_tokens), np.int8(-1), buckets)


@njit(cache=True)
def aggregate(
    queries: NDArray[np.float32],
    train: NDArray[np.float32],
    candidates: Ints,
    left_out: Ints,
    k: int,
    score: Floats,
    length: Floats,
    buckets: NDArray[np.int8],
    mean_score: Floats,
    mean_length: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Quality (P, M), length (P, M) and length histogram (P, M, 16) of P queries.

    ``candidates`` (P, C), C ≥ k unless the index is smaller, holds training rows that include the k
    nearest; ``left_out`` (P,) is a training row to ignore for each query, or -1. Ties in distance go to
    the lower row.
    """
    n_queries, n_models = len(queries), score.shape[1]
    quality = np.zeros((n_queries, n_models))
    tokens = np.zeros((n_queries, n_models))
    histogram = np.zeros((n_queries, n_models, N_LENGTH_BUCKETS))
    for row in range(n_queries):
        rows, weights = _nearest(queries[row], train, candidates[row], left_out[row], k)
        for model in range(n_models):
            scored, told = 0.0, 0.0
            for position in range(len(rows)):
                neighbour, weight = rows[position], weights[position]
                value = score[neighbour, model]
                if not np.isnan(value):
                    scored += weight
                    quality[row, model] += weight * value
                bucket = buckets[neighbour, model]
                if bucket >= 0:
                    told += weight
                    tokens[row, model] += weight * length[neighbour, model]
                    histogram[row, model, bucket] += weight
            quality[row, model] = quality[row, model] / scored if scored > 0.0 else mean_score[model]
            if told > 0.0:
                tokens[row, model] /= told
                histogram[row, model] /= told
            else:
                tokens[row, model] = mean_length[model]
                last = min(int(mean_length[model]) // LENGTH_BUCKET_TOKENS, N_LENGTH_BUCKETS - 1)
                histogram[row, model, last] = 1.0
            tokens[row, model] = max(1.0, tokens[row, model])
    return quality, tokens, histogram


@njit(cache=True, fastmath={"reassoc", "contract"})
def inner_products(query: NDArray[np.float32], train: NDArray[np.float32]) -> NDArray[np.float32]:
    """Of one query (dim,) with every training row, (1, N), by this thread alone."""
    products = np.empty((1, len(train)), dtype=np.float32)
    for row in range(len(train)):
        total = np.float32(0.0)
        for axis in range(len(query)):  # in any order, or it would not fill the registers' lanes
            total += query[axis] * train[row, axis]
        products[0, row] = total
    return products


@njit(cache=True)
def top_rows(scores: NDArray[np.float32], count: int) -> Ints:
    """Columns of the ``count`` highest scores of each row, best first; shape (rows, count)."""
    n_rows, n_columns = scores.shape
    top = np.empty((n_rows, count), dtype=np.int64)
    best = np.empty(count, dtype=np.float32)
    for row in range(n_rows):
        best[:] = -np.inf
        for column in range(n_columns):
            score = scores[row, column]
            if score <= best[count - 1] and column >= count:
                continue
            at = min(column, count - 1)
            while at > 0 and score > best[at - 1]:
                best[at], top[row, at] = best[at - 1], top[row, at - 1]
                at -= 1
            best[at], top[row, at] = score, column
    return top


@njit(cache=True)
def _nearest(
    query: NDArray[np.float32], train: NDArray[np.float32], candidates: Ints, left_out: int, k: int
) -> tuple[Ints, Floats]:
    """The k nearest candidates by float64 cosine and their weights 1 / (1 − cos + 1e-6)."""
    rows = np.empty(k, dtype=np.int64)
    cosines = np.empty(k)
    found = 0
    for candidate in candidates:
        if candidate < 0 or candidate == left_out:
            continue
        cosine = 0.0
        for axis in range(len(query)):
            cosine += np.float64(query[axis]) * np.float64(train[candidate, axis])
        at = found
        while at > 0 and (
            cosine > cosines[at - 1] or (cosine == cosines[at - 1] and candidate < rows[at - 1])
        ):
            at -= 1
        if at == k:
            continue
        for position in range(min(found, k - 1), at, -1):
            rows[position], cosines[position] = rows[position - 1], cosines[position - 1]
        rows[at], cosines[at] = candidate, cosine
        found = min(found + 1, k)
    weights = np.empty(found)
    for position in range(found):
        weights[position] = 1.0 / (max(0.0, 1.0 - cosines[position]) + EPSILON)
    return rows[:found], weights
