"""Thresholds on a router's probabilities, and who answers where none reaches it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.errors import BundleError

Floats = NDArray[np.float64]


def checked_threshold(threshold: float) -> float:
    """Itself; raises ``BundleError`` unless it is a probability."""
    if not 0.0 <= threshold <= 1.0:
        raise BundleError(f"threshold is {threshold}; it is a probability")
    return threshold


def checked_fallback(fallback: str | None, models: tuple[str, ...]) -> str | None:
    """Itself; raises ``BundleError`` unless it is one of ``models`` or None."""
    if fallback is not None and fallback not in models:
        raise BundleError(f"fallback {fallback!r} is none of {', '.join(models)}")
    return fallback


def or_fallback(probabilities: Floats, threshold: float, fallback: int) -> Floats:
    """The probabilities (P, M), and 2 for the model ``fallback`` where none reaches the threshold."""
    unsure = probabilities.max(axis=1, initial=0.0) < threshold
    scores = probabilities.copy()
    scores[unsure, fallback] = 2.0
    return scores
