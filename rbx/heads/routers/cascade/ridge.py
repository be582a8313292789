"""Ridge regression with its leave-one-out predictions in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ridge:
    """``left_out`` (N,) are predictions of each row by the fit to all others; ``penalty`` has the least
    squared error of those."""

    weights: Floats  # (F,)
    offset: float
    penalty: float
    left_out: Floats

    def __call__(self, features: Floats) -> Floats:
        """Predictions (P,) for features (P, F)."""
        return np.asarray(features @ self.weights + self.offset)


def fit_ridge(features: Floats, target: Floats, penalties: Sequence[float]) -> Ridge:
    """Fit features (N, F), N ≥ 2, to ``target`` (N,); the offset is not penalised.

    With the singular values d and left vectors U of the centred features, row n's own share in its prediction
    is h = 1/N + Σ U²·d²/(d² + penalty), and the prediction without it is off by residual ÷ (1 − h).
    """
    centre, mean = features.mean(axis=0), float(target.mean())
    left, sizes, right = np.linalg.svd(features - centre, full_matrices=False)
    turned = left.T @ (target - mean)
    best: Ridge | None = None
    for penalty in penalties:
        kept = sizes**2 / (sizes**2 + penalty)
        own = 1.0 / len(target) + (left**2) @ kept
        residual = target - mean - left @ (kept * turned)
        off = residual / np.maximum(1.0 - own, 1e-9)
        if best is None or (off**2).sum() < ((target - best.left_out) ** 2).sum():
            weights = right.T @ (sizes / (sizes**2 + penalty) * turned)
            best = Ridge(weights, mean - float(centre @ weights), penalty, target - off)
    assert best is not None
    return best
