"""Tall least-squares problems reduced to a few rows that have the same solutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Rows of one reduction: some hundred stay in the processor's cache, a million do not.
_ROWS = 512


def triangle(rows: Floats) -> Floats:
    """The triangle (≤ columns, columns) of the QR decomposition of ``rows``, by way of short stretches.

    No product of columns is formed, so that nothing is lost where they nearly coincide.
    """
    while len(rows) > 2 * _ROWS:
        whole = len(rows) // _ROWS * _ROWS
        stretches = _triangles(rows[:whole].reshape(-1, _ROWS, rows.shape[1]))
        rows = np.concatenate([stretches.reshape(-1, rows.shape[1]), rows[whole:]])
    return _triangles(rows)


def _triangles(rows: Floats) -> Floats:
    # NumPy's types say that every mode gives two matrices; this one gives the triangle alone.
    return np.asarray(np.linalg.qr(rows, mode="r"))


def product(matrix: Floats, vector: Floats) -> Floats:
    """``matrix`` (n, p) times ``vector`` (p,) in this thread.

    ``@`` shares such products out among threads, which on busy cores wait for each other for longer than
    the product takes.
    """
    values: Floats = np.einsum("np,p->n", matrix, vector)
    return values


class BlockSums:
    """Least-squares problems of blocks of rows, quickly added up for any number of copies of each.

    Products of columns are kept block by block, but of orthonormal columns that span the same space:
    adding those up loses nothing where the given ones nearly coincide. ``rows`` (N, p), ``block`` (N,).
    """

    def __init__(self, rows: Floats, block: Ints) -> None:
        """Take the products of each block."""
        _, member = np.unique(block, return_inverse=True)
        self.blocks = int(member.max()) + 1
        length = np.linalg.norm(rows, axis=0)
        length[length == 0.0] = 1.0
        _, singular, directions = np.linalg.svd(triangle(rows / length), full_matrices=False)
        spans = singular > singular[0] * np.finfo(np.float64).eps
        self._back = singular[spans, None] * directions[spans] * length
        basis = rows / length @ (directions[spans].T / singular[spans])
        self._upper = np.triu_indices(basis.shape[1])
        pairs = zip(*self._upper, strict=True)
        self._products = self._by_block(member, [basis[:, i] * basis[:, j] for i, j in pairs])
        self._present = self._by_block(member, [column != 0.0 for column in rows.T])

    def _by_block(self, member: Ints, columns: Sequence[NDArray[Any]]) -> Floats:
        return np.array([np.bincount(member, column, self.blocks) for column in columns], dtype=np.float64)

    def of(self, copies: Floats) -> Floats:
        """A few rows (≤ p, p) with the least squares of ``copies`` (blocks,) of each block."""
        products = np.zeros((len(self._back), len(self._back)))
        products[self._upper] = product(self._products, copies)
        products.T[self._upper] = products[self._upper]
        size, axes = np.linalg.eigh(products)
        rows: Floats = np.sqrt(np.maximum(size, 0.0))[:, None] * axes.T @ self._back
        # What is absent from the blocks drawn must be so exactly.
        rows[:, product(self._present, copies) == 0.0] = 0.0
        return rows
