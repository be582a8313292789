"""How long answers get, given how long they are already: medians of the survivors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rbx.errors import BundleError

Ints = NDArray[np.int64]

MIN_SURVIVORS = 8


@dataclass(frozen=True)
class SurvivalTable:
    """Median total output of one model, given the tokens so far and the prompt's length.

    ``medians`` (B, X): for the prompt-length bin b and x tokens generated, the median of the totals
    beyond x, rounded up; of all prompts where fewer than 8 of the bin's are left; 0 where fewer than
    8 are left of all. ``edges`` (B − 1,): the largest prompt of each bin but the last.
    """

    edges: Ints
    medians: Ints

    @classmethod
    def fit(cls, prompt_tokens: ArrayLike, output_tokens: ArrayLike, bins: int = 4) -> SurvivalTable:
        """From the finished requests of one model, two columns (N,); bins hold like numbers of them.

        Raises ``BundleError`` for columns of other shapes, counts below 1, or no bins.
        """
        prompts, totals = _column(prompt_tokens, "prompt_tokens"), _column(output_tokens, "output_tokens")
        if prompts.shape != totals.shape:
            raise BundleError(
                f"prompt_tokens has {len(prompts)} rows and output_tokens {len(totals)}; give one for each"
            )
        if bins < 1:
            raise BundleError(f"bins is {bins}; a survival table needs at least 1")
        quantiles = np.quantile(prompts, np.arange(1, bins) / bins, method="lower").astype(np.int64)
        edges = np.unique(quantiles[quantiles < prompts.max()])
        member = np.searchsorted(edges, prompts, side="left")
        generated = np.arange(totals.max())
        every = _medians_beyond(generated, totals)
        rows = [_medians_beyond(generated, totals[member == b]) for b in range(len(edges) + 1)]
        return cls(edges, np.array([np.where(row > 0, row, every) for row in rows]))


def _medians_beyond(generated: Ints, totals: Ints) -> Ints:
    """Median of the totals above each x of ``generated``, rounded up; 0 if fewer than 8 are."""
    ordered = np.sort(totals)
    first = np.searchsorted(ordered, generated, side="right")
    left = len(ordered) - first
    enough = left >= MIN_SURVIVORS
    low = ordered[np.where(enough, first + (left - 1) // 2, 0)]
    high = ordered[np.where(enough, first + left // 2, 0)]
    return np.where(enough, (low + high + 1) // 2, 0)


def _column(values: ArrayLike, name: str) -> Ints:
    array = np.asarray(values)
    if array.ndim != 1 or len(array) == 0:
        raise BundleError(f"{name} has shape {array.shape}; give one column with at least one row")
    if array.dtype.kind not in "iu":
        raise BundleError(f"{name} must be whole numbers, not {array.dtype}")
    if array.min() < 1:
        row = int(array.argmin())
        raise BundleError(f"{name}[{row}] is {array[row]}; every count must be at least 1")
    return array.astype(np.int64)
