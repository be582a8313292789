from __future__ import annotations

import numpy as np
import pytest

from rbx.report.paired import Resampling
from rbx.report.routers.means import PairedMeans, drawn_prompts

RESAMPLING = Resampling(n_resamples=400, seed=7)


def columns() -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    rng = np.random.default_rng(0)
    first, second = rng.random(60), rng.random(60)
    second[::7] = np.nan
    return [first, second]


def by_hand() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Means of both columns on each resample, prompt by prompt."""
    found = []
    for counts in drawn_prompts(60, RESAMPLING):
        for drawn in counts:
            rows = np.repeat(np.arange(60), drawn)
            found.append([float(np.nanmean(column[rows])) for column in columns()])
    return np.array(found).T


def test_intervals_are_percentiles_of_means_over_the_drawn_prompts() -> None:
    means, drawn = PairedMeans(columns(), RESAMPLING), by_hand()
    for column in range(2):
        interval = means.mean(column)
        assert interval.value == pytest.approx(np.nanmean(columns()[column]))
        assert [interval.low, interval.high] == pytest.approx(
            np.quantile(drawn[column], [0.025, 0.975]).tolist()
        )


def test_differences_are_taken_within_a_resample() -> None:
    gap = by_hand()[0] - by_hand()[1]
    interval = PairedMeans(columns(), RESAMPLING).difference(0, 1)
    assert [interval.low, interval.high] == pytest.approx(np.quantile(gap, [0.025, 0.975]).tolist())
    same = PairedMeans([columns()[0]] * 2, RESAMPLING).difference(0, 1)
    assert (same.value, same.status) == (0.0, "degenerate")


def test_a_mean_over_nothing_is_not_zero() -> None:
    interval = PairedMeans([np.full(5, np.nan), np.ones(5)], RESAMPLING).mean(0)
    assert interval.status == "not_estimable"
    assert np.isnan(interval.value)
