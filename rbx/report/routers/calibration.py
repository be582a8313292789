"""Whether a predicted quality comes true: reliability in bins of equal mass, and the expected error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rbx.report.interval import Interval
from rbx.report.paired import Resampling, from_replicates
from rbx.report.routers.means import PairedMeans
from rbx.report.routers.population import Bools, Floats, Ints, Population

BINS = 10


@dataclass(frozen=True)
class Bin:
    """Predictions of about the same size: their mean, and the mean label of those answers."""

    n: int
    predicted: float
    observed: Interval


@dataclass(frozen=True)
class CalibrationRow:
    """One router whose scores are expected labels; a value for each prompt and model counts.

    ``error`` is Σ over bins of the bin's share × |mean prediction − mean label|; ``bias`` the mean of
    prediction − label; ``outside`` the share of predictions below 0 or above 1, taken as they are.
    """

    router: str
    n_values: int
    error: Interval
    bias: Interval
    outside: float
    bins: tuple[Bin, ...]


def calibration_row(
    router: str, score: Floats, population: Population, resampling: Resampling
) -> CalibrationRow:
    """Judge ``score`` (n, M). The bins' edges are those of the data, in each resample the same."""
    bins = equal_mass_bins(score)
    k = int(bins.max()) + 1
    n, m = score.shape
    member = [bins == which for which in range(k)]
    gap = score - population.score
    means = PairedMeans(
        [
            *(_total(gap, each) / m for each in member),
            *(_total(population.score, each) for each in member),
            *(each.sum(axis=1).astype(np.float64) for each in member),
            gap.mean(axis=1),
        ],
        resampling,
    )
    return CalibrationRow(
        router=router,
        n_values=n * m,
        error=from_replicates(
            float(np.abs(means.values[:k]).sum()), np.abs(means.replicates[:k]).sum(axis=0), n
        ),
        bias=means.mean(3 * k),
        outside=float(((score < 0.0) | (score > 1.0)).mean()),
        bins=tuple(
            _bin(means, which, k, score[each], int(each.any(axis=1).sum()))
            for which, each in enumerate(member)
        ),
    )


def _total(values: Floats, member: Bools) -> Floats:
    return np.asarray(np.where(member, values, 0.0).sum(axis=1))


def _bin(means: PairedMeans, which: int, k: int, predictions: Floats, n_prompts: int) -> Bin:
    """The mean label is a ratio of means over prompts, as a prompt may have several values in a bin."""
    labels, counts = k + which, 2 * k + which
    count = means.replicates[counts]
    drawn = np.where(count > 0, means.replicates[labels] / np.where(count > 0, count, 1.0), np.nan)
    observed = float(means.values[labels] / means.values[counts])
    return Bin(len(predictions), float(predictions.mean()), from_replicates(observed, drawn, n_prompts))


def equal_mass_bins(score: Floats, n_bins: int = BINS) -> Ints:
    """Bin of each value, from 0 up without gaps; equal values share a bin, so that there may be fewer."""
    edges = np.quantile(score, np.arange(1, n_bins) / n_bins)
    raw = np.searchsorted(edges, score.ravel(), side="left")
    return np.unique(raw, return_inverse=True)[1].reshape(score.shape).astype(np.int64)
