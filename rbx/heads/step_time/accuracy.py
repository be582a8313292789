"""How far predicted step times lie from measured ones, by kind of step, with intervals over blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.heads.step_time.design import KINDS, Steps
from rbx.heads.step_time.least_squares import product

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

RESAMPLES = 2_000
# Less than this part of the best model's error is no reason for another model.
_NEGLIGIBLE = 0.02


@dataclass(frozen=True)
class Accuracy:
    """Errors of one model on ``n`` steps of a kind; None where there are none.

    ``mape``, ``median_ape`` and ``p90_ape`` are of |predicted − measured| / measured, ``bias`` is the mean
    of (predicted − measured) / measured, ``total_bias`` the predicted total over the measured one, less 1.
    """

    kind: str
    n: int
    mape: float | None
    median_ape: float | None
    p90_ape: float | None
    bias: float | None
    total_bias: float | None


def measure(steps: Steps, predicted_s: Floats, stalled: Mask) -> tuple[Accuracy, ...]:
    """Each kind, all steps, and all steps but the stalls (which every other row includes)."""
    rows = [(kind, steps.kind == index) for index, kind in enumerate(KINDS)]
    rows += [("all", np.ones(len(steps), dtype=np.bool_)), ("all but stalls", ~stalled)]
    return tuple(_accuracy(kind, predicted_s[mask], steps.seconds[mask]) for kind, mask in rows)


def _accuracy(kind: str, predicted_s: Floats, measured_s: Floats) -> Accuracy:
    if len(measured_s) == 0:
        return Accuracy(kind, 0, None, None, None, None, None)
    error = predicted_s / measured_s - 1.0
    ape = np.abs(error)
    return Accuracy(
        kind=kind,
        n=len(ape),
        mape=float(ape.mean()),
        median_ape=float(np.median(ape)),
        p90_ape=float(np.percentile(ape, 90)),
        bias=float(error.mean()),
        total_bias=float(predicted_s.sum() / measured_s.sum() - 1.0),
    )


def resampled_mape(ape: Sequence[Floats], block: Ints, rng: np.random.Generator) -> NDArray[np.float64]:
    """MAPE of each model (models, resamples) on the same resampled blocks; ``ape`` is per step."""
    _, member = np.unique(block, return_inverse=True)
    size = np.bincount(member)
    totals = np.array([np.bincount(member, errors) for errors in ape], dtype=np.float64)
    means = np.empty((len(ape), RESAMPLES))
    for at in range(RESAMPLES):
        copies = np.bincount(rng.integers(0, len(size), len(size)), minlength=len(size)).astype(np.float64)
        means[:, at] = product(totals, copies) / np.sum(size * copies)
    return means


def simplest_as_good(mape: Floats, resampled: Floats) -> int:
    """Position of the model to use; models stand in order, the simplest first.

    The first whose error is not surely above the lowest: the 95 % interval of the difference over the same
    resampled blocks reaches 0, or the difference is below 2 % of the error.
    """
    best = int(np.argmin(mape))
    for at in range(best):
        low = np.percentile(resampled[at] - resampled[best], 2.5)
        if low <= 0.0 or mape[at] <= mape[best] * (1.0 + _NEGLIGIBLE):
            return at
    return best
