"""The quality and length head: distance-weighted nearest neighbours over the training prompts.

RouteBalance (arXiv 2606.17949, section 4.2): exact inner product over unit embeddings, k = 10, weight
1 / (1 − cos + 1e-6). Beside the means it gives a histogram of neighbour lengths in 64-token buckets.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import faiss
import numpy as np
from numpy.typing import NDArray

from rbx.errors import BundleError
from rbx.heads.encoder import Embeddings
from rbx.heads.neighbours import aggregate, inner_products, length_buckets, top_rows
from rbx.heads.predictions import Predictions

# One query alone is bound by memory. numpy asks for huge pages and FAISS does not, so that a loop over our
# own copy reads 14,932 × 256 in 0.6 ms and FAISS its own in 1.4 ms.
# Below this number of queries FAISS scans the index; from it on one matrix product is faster. FAISS has
# such a path too, but on 14,919 × 384 and two cores its BLAS takes 6.5 ms for 32 queries, numpy's 2.8.
PRODUCT_FROM_QUERIES = 8
PRODUCT_ROWS = 256  # bounds the scores held at once

# Both rank in float32 and round differently, so a few neighbours more than k are fetched and ranked
# again in float64: the same query gives the same answer in a batch of any size.
MARGIN = 6

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Labels:
    """What the training prompts say of each model; N prompts, M models, NaN where unknown.

    ``score`` and ``length_tokens`` have shape (N, M).
    """

    models: tuple[str, ...]
    score: NDArray[np.float64]
    length_tokens: NDArray[np.float64]


class KnnHead:
    """Quality and output length of each model for a prompt, from its k nearest training prompts.

    A neighbour that lacks a label for a model is left out for that model and the other weights are
    renormalised; where all k lack it, the model's mean over all training prompts stands in.
    """

    def __init__(self, embeddings: Embeddings, labels: Labels, k: int = 10) -> None:
        """Build the index; ``embeddings`` (N, dim), rows of length one.

        Raises ``BundleError`` for an empty index, shapes that differ, values that are not finite,
        vectors that are not of length one, k < 1, or a model without any label.
        """
        _check(embeddings, labels, k)
        if k > len(embeddings):
            _log.warning("k = %d exceeds the %d training prompts; all of them are used", k, len(embeddings))
        self.k = min(k, len(embeddings))
        self.labels = labels
        self.embeddings = np.ascontiguousarray(embeddings, dtype=np.float32)
        self._buckets = length_buckets(labels.length_tokens)
        self._mean_score = np.nanmean(labels.score, axis=0)
        self._mean_length = np.nanmean(labels.length_tokens, axis=0)
        self._index = faiss.IndexFlatIP(self.dim)
        self._index.add(self.embeddings)

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return int(self.embeddings.shape[1])

    @property
    def models(self) -> tuple[str, ...]:
        """The model axis of every prediction."""
        return self.labels.models

    def predict(self, embeddings: Embeddings) -> Predictions:
        """Predict for unit ``embeddings`` of shape (prompts, dim).

        Raises ``BundleError`` if the dimension differs or a value is not finite.
        """
        return self._predict(embeddings, np.full(len(embeddings), -1, dtype=np.int64))

    def predict_left_out(self, rows: Sequence[int] | NDArray[np.int64]) -> Predictions:
        """Predict training prompts, by row, as if each one's own labels were unknown."""
        left_out = np.asarray(rows, dtype=np.int64)
        if len(self.embeddings) < 2:
            raise BundleError("a single training prompt can't be predicted from the others; there are none")
        return self._predict(self.embeddings[left_out], left_out)

    def _predict(self, embeddings: Embeddings, left_out: NDArray[np.int64]) -> Predictions:
        queries = np.ascontiguousarray(embeddings, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.dim:
            raise BundleError(
                f"embeddings have shape {queries.shape}, the index holds {self.dim} numbers each"
            )
        if not np.isfinite(queries).all():
            row = int(np.flatnonzero(~np.isfinite(queries).all(axis=1))[0])
            raise BundleError(f"the embedding of prompt {row} holds NaN or infinity; check the encoder")
        candidates = self._candidates(queries)
        quality, length, histogram = aggregate(
            queries,
            self.embeddings,
            candidates,
            left_out,
            self.k,
            self.labels.score,
            self.labels.length_tokens,
            self._buckets,
            self._mean_score,
            self._mean_length,
        )
        return Predictions(self.models, quality, length, histogram)

    def _candidates(self, queries: Embeddings) -> NDArray[np.int64]:
        """Rows that include the k nearest of each query, shape (queries, k + ``MARGIN``)."""
        count = min(self.k + MARGIN, len(self.embeddings))
        if len(queries) == 1:
            return top_rows(inner_products(queries[0], self.embeddings), count)
        if len(queries) >= PRODUCT_FROM_QUERIES:
            parts = [top_rows(queries[part] @ self.embeddings.T, count) for part in _at_once(len(queries))]
            return np.concatenate(parts)
        # One thread: a scan this short gains little from a second one, and on a busy machine the two
        # wait for each other (20 ms instead of 7 for one query, with three busy processes a core).
        faiss.omp_set_num_threads(1)
        faiss.cvar.distance_compute_blas_threshold = PRODUCT_FROM_QUERIES
        _, candidates = self._index.search(queries, count)
        rows: NDArray[np.int64] = candidates
        return rows


def _at_once(rows: int) -> list[slice]:
    return [slice(start, start + PRODUCT_ROWS) for start in range(0, rows, PRODUCT_ROWS)]


def _check(embeddings: Embeddings, labels: Labels, k: int) -> None:
    n, n_models = len(embeddings), len(labels.models)
    if n == 0 or n_models == 0:
        raise BundleError(f"an index needs prompts and models; given: {n} prompts, {n_models} models")
    if k < 1:
        raise BundleError(f"k is {k}; at least one neighbour is needed")
    for name, array in (("score", labels.score), ("output_tokens", labels.length_tokens)):
        if array.shape != (n, n_models):
            raise BundleError(f"{name} has shape {array.shape}, expected {(n, n_models)}")
        if np.isinf(array).any():
            raise BundleError(f"{name} holds infinity in row {int(np.argwhere(np.isinf(array))[0, 0])}")
        for column, model in enumerate(labels.models):
            if np.isnan(array[:, column]).all():
                raise BundleError(
                    f"{model}: no training prompt has a value of {name}; take the model out of the pool or "
                    f"fill in that column of the grid"
                )
    norms = np.linalg.norm(embeddings.astype(np.float64), axis=1)
    wrong = np.flatnonzero(~(np.abs(norms - 1.0) < 1e-3))
    if len(wrong):
        raise BundleError(
            f"the embedding of training prompt {wrong[0]} has length {norms[wrong[0]]:g}, not 1"
        )
