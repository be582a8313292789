"""Multinomial logistic regression on embeddings, over labels of which some may never occur."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def fit_softmax(
    embeddings: Floats, label: NDArray[np.int64], n: int, strength: float, steps: int
) -> tuple[Floats, Floats]:
    """Weights (dim, n) and offsets (n,) of the logits; a label that never occurs gets no probability.

    ``strength`` is the inverse one of the L2 penalty (scikit-learn's C). What ``steps`` leave undone is far
    below what held-out prompts can tell.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    weights, offset = np.zeros((embeddings.shape[1], n)), np.full(n, -np.inf)
    seen = np.unique(label)
    offset[seen] = 0.0
    if len(seen) == 1:
        return weights, offset
    fit = LogisticRegression(C=strength, max_iter=steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit.fit(embeddings, label)
    if len(seen) == 2:
        # Of two labels scikit-learn keeps the logit of the second alone.
        weights[:, seen[1]], offset[seen[1]] = fit.coef_[0], fit.intercept_[0]
    else:
        weights[:, seen], offset[seen] = fit.coef_.T, fit.intercept_
    return weights, offset
