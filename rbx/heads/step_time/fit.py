"""Coefficients that are never negative, fitted to relative errors, with stalls kept out.

Three passes: a robust one (Huber's weights on relative residuals), the stalls found in it dropped, then
least squares with the relative errors of what is left. Errors are relative to the step's *predicted*
length: dividing by the measured one would favour low predictions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.stats import norm

from rbx.heads.step_time.design import KINDS, Steps
from rbx.heads.step_time.least_squares import product, triangle

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# The engine demands that every step costs something.
SMALLEST_STEP_S = 1e-6

HUBER = 1.345  # 95 % as efficient as least squares under normal errors
_SIGMA_OF_MAD = 1.4826
_PASSES = 100
_NNLS_PASSES = 1_000

STALL_PERCENTILE = 99.9
# A model may be off by a part of a step where it fits badly; a stall is of another size.
STALL_EXCESS = 0.5


@dataclass(frozen=True)
class StallRule:
    """Which steps are stalls: by kind, the relative residual above which a step is one.

    ``limit`` (kinds,) is the 99.9th percentile of a normal law with the residuals' spread around zero
    (1.4826 × median of their sizes), so that many stalls can't hide each other; at least half a step.
    """

    feature_set: str
    coefficients: Floats
    limit: Floats

    @classmethod
    def of(cls, steps: Steps) -> StallRule:
        """From the robust pass of the richest model that the steps allow."""
        feature_set = steps.feature_sets[-1]
        columns = steps.columns(feature_set)
        coefficients = robust_fit(columns, steps.seconds)
        residual = steps.seconds / (columns @ coefficients) - 1.0
        spreads = [spread(residual[steps.kind == kind]) for kind in range(len(KINDS))]
        limit = np.maximum(norm.ppf(STALL_PERCENTILE / 100) * np.array(spreads), STALL_EXCESS)
        return cls(feature_set, coefficients, limit)

    def expected_s(self, steps: Steps) -> Floats:
        """What each step takes without a stall, as the robust pass has it."""
        expected: Floats = steps.columns(self.feature_set) @ self.coefficients
        return expected

    def stalled(self, steps: Steps) -> Mask:
        """Whether each step (N,) is a stall."""
        mask: Mask = steps.seconds / self.expected_s(steps) - 1.0 > self.limit[steps.kind]
        return mask


def spread(residual: Floats) -> float:
    """Standard deviation around zero of the bulk of ``residual``; 0 for none."""
    return float(_SIGMA_OF_MAD * np.median(np.abs(residual))) if len(residual) else 0.0


def nonnegative_fit(columns: Floats, seconds: Floats, weights: Floats) -> Floats:
    """Coefficients ≥ 0 with the least Σ (weight · error)², the first (a step's fixed cost) above 0.

    Columns are scaled to the same length first; a column of zeros gets 0.
    """
    rows = np.empty((len(columns), columns.shape[1] + 1))
    np.multiply(columns, weights[:, None], out=rows[:, :-1])
    rows[:, -1] = (seconds - SMALLEST_STEP_S * columns[:, 0]) * weights
    reduced = triangle(rows)
    weighted, target = reduced[:, :-1], reduced[:, -1]
    length = np.linalg.norm(weighted, axis=0)
    length[length == 0.0] = np.inf
    # Its own limit of three passes a column can be too few where columns nearly coincide.
    scaled, _ = nnls(weighted / length, target, maxiter=_NNLS_PASSES)
    coefficients: Floats = scaled / length
    coefficients[0] += SMALLEST_STEP_S
    return coefficients


def robust_fit(columns: Floats, seconds: Floats) -> Floats:
    """Huber's estimate on relative residuals, by reweighting until predictions stand still."""
    # Errors relative to the measured length are at most 1 for a stall: a start that no stall can spoil.
    expected, trust = seconds, np.ones(len(seconds))
    coefficients = nonnegative_fit(columns, seconds, 1.0 / expected)
    for _ in range(_PASSES):
        before, expected = expected, product(columns, coefficients)
        if np.max(np.abs(expected / before - 1.0)) < 1e-9:
            break
        residual = np.abs(seconds / expected - 1.0)
        bound = HUBER * spread(residual)
        trust = np.minimum(1.0, bound / np.maximum(residual, bound)) if bound > 0 else np.ones(len(seconds))
        coefficients = nonnegative_fit(columns, seconds, np.sqrt(trust) / expected)
    return coefficients


def relative_weights(columns: Floats, seconds: Floats) -> Floats:
    """1 / predicted length (N,), the prediction being that of the robust pass."""
    weights: Floats = 1.0 / (columns @ robust_fit(columns, seconds))
    return weights
