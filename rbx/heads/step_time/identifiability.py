"""What a trace can tell of each coefficient: intervals over blocks, collinearity, and both in words.

Collinearity by the variance decomposition of Belsley, Kuh and Welsch (1980): columns scaled to the same
length; where a condition index is large, the coefficients whose variance comes mostly from it can't be
told apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rbx.heads.step_time.design import TERMS
from rbx.heads.step_time.fit import SMALLEST_STEP_S, nonnegative_fit
from rbx.heads.step_time.least_squares import BlockSums, triangle

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RESAMPLES = 500
COLLINEAR = 30.0
_SINGULAR = 1e8
_SHARE = 0.5  # of a coefficient's variance
UNCERTAIN = 0.5  # half-width of the interval over the coefficient


def coefficient_intervals(
    columns: Floats, seconds: Floats, weights: Floats, block: Ints, rng: np.random.Generator
) -> Floats:
    """95 % percentile intervals (coefficients, 2) over resampled blocks, refitted each time."""
    sums = BlockSums(np.column_stack([columns, seconds]) * weights[:, None], block)
    fits = []
    for _ in range(RESAMPLES):
        drawn = rng.integers(0, sums.blocks, sums.blocks)
        rows = sums.of(np.bincount(drawn, minlength=sums.blocks).astype(np.float64))
        fits.append(nonnegative_fit(rows[:, :-1], rows[:, -1], np.ones(len(rows))))
    interval: Floats = np.percentile(np.array(fits), [2.5, 97.5], axis=0).T
    return interval


def collinear_groups(columns: Floats, weights: Floats) -> tuple[float, list[tuple[float, list[int]]]]:
    """The condition number of the columns that are not zero, and each group that moves together.

    A group is (condition index, coefficients by position), the worst first.
    """
    weighted = triangle(columns * weights[:, None])
    length = np.linalg.norm(weighted, axis=0)
    present = np.flatnonzero(length > 0)
    _, singular, directions = np.linalg.svd(weighted[:, present] / length[present], full_matrices=False)
    singular = np.maximum(singular, singular[0] * 1e-15)
    index = singular[0] / singular
    variance = (directions / singular[:, None]) ** 2
    share = variance / variance.sum(axis=0)
    groups = [
        (float(index[j]), present[share[j] > _SHARE].tolist())
        for j in np.argsort(-index, kind="stable")
        if index[j] > COLLINEAR and (share[j] > _SHARE).sum() > 1
    ]
    return float(index.max()), groups


def unidentified(
    names: Sequence[str],
    columns: Floats,
    coefficients: Floats,
    interval: Floats,
    groups: Sequence[tuple[float, Sequence[int]]],
) -> tuple[str, ...]:
    """What the trace leaves open of each coefficient, one sentence each."""
    absent = (columns == 0.0).all(axis=0)
    half_width = (interval[:, 1] - interval[:, 0]) / 2
    unsure = (half_width > UNCERTAIN * coefficients) & ~absent
    said = [
        f"{name} is 0: no step has {TERMS[name]}, so none with them can be priced"
        for name, missing in zip(names, absent, strict=True)
        if missing
    ]
    said += [
        f"{name} is held at 0, not measured: the steps alone would make it negative, which no cost of "
        f"{TERMS[name]} can be"
        for name, bound in zip(
            names, (coefficients == 0.0) & (interval == 0.0).all(axis=1) & ~absent, strict=True
        )
        if bound
    ]
    explained: set[int] = set()
    for index, group in groups:
        if index < _SINGULAR and not unsure[list(group)].any():
            continue
        together = " and ".join(f"{names[at]} ({TERMS[names[at]]})" for at in group)
        shown = "no step tells them apart" if index >= _SINGULAR else f"condition index {index:.0f}"
        said.append(f"{together} move together ({shown}): their split is arbitrary, their sum is not")
        explained.update(group)
    for at, name in enumerate(names):
        if unsure[at] and at not in explained:
            low, high = interval[at]
            said.append(
                f"{name} is barely determined (95 % interval {low:.2g} to {high:.2g} s): these steps hardly "
                f"depend on {TERMS[name]}"
            )
    if coefficients[0] <= SMALLEST_STEP_S:
        said.append(
            f"{names[0]}: no fixed cost was found; {SMALLEST_STEP_S:g} s stands in, since a step needs one"
        )
    return tuple(said)
