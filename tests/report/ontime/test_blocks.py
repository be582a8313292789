"""Blocks of time against a loop that builds every resample, and against series of known memory."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rbx.errors import StatisticsError
from rbx.report.bootstrap import bounds
from rbx.report.ontime.block_length import FEWEST_BLOCKS, block_length
from rbx.report.ontime.blocks import TimeSeries, resample_blocks

Floats = NDArray[np.float64]


def _built(series: TimeSeries, length: int, n_resamples: int, seed: tuple[int, ...]) -> Floats:
    """Every resample as a list of requests, in plain loops."""
    rng = np.random.default_rng(list(seed))
    chosen: list[list[int]] = [[] for _ in range(n_resamples)]
    offset = 0
    for size in series.sizes:
        reach = min(length, size)
        starts = rng.integers(0, size, size=(n_resamples, -(-size // reach)))
        for index in range(n_resamples):
            mine: list[int] = []
            for start in starts[index]:
                mine += [offset + (int(start) + step) % size for step in range(reach)]
            chosen[index] += mine[:size]
        offset += size
    found = np.full((series.values.shape[1], n_resamples), np.nan)
    for index, mine in enumerate(chosen):
        drawn = series.values[mine]
        for column in range(drawn.shape[1]):
            known = drawn[np.isfinite(drawn[:, column]), column]
            if len(known):
                found[column, index] = known.mean()
    return found


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 17), min_size=1, max_size=3),
    length=st.integers(1, 20),
    gaps=st.floats(0, 0.9),
    seed=st.integers(0, 9),
)
def test_means_equal_those_of_resamples_built_one_by_one(
    sizes: list[int], length: int, gaps: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(100, 1, (sum(sizes), 3))
    values[rng.random(values.shape) < gaps] = np.nan
    values[:, 0] = rng.normal(0, 1, sum(sizes))
    series = TimeSeries(values, tuple(sizes))
    found = resample_blocks(series, length, n_resamples=25, seed=(seed, 1))
    assert found.shape == (3, 25)
    np.testing.assert_allclose(found, _built(series, length, 25, (seed, 1)), rtol=1e-9, atol=1e-9)


def test_each_request_is_drawn_equally_often() -> None:
    n = 30
    found = resample_blocks(TimeSeries(np.eye(n), (n,)), 7, n_resamples=20_000, seed=(0,))
    assert found.mean(axis=1) * n == pytest.approx(np.ones(n), abs=0.05)
    assert (found.sum(axis=0) * n).round(6) == pytest.approx(np.full(20_000, n))


def test_a_series_that_remembers_gets_a_wider_interval_that_covers_the_truth() -> None:
    """AR(1) of coefficient 0.9: the mean varies √19 times as much as that of independent values."""
    rng = np.random.default_rng(5)
    n, hits, widths = 2000, 0, []
    trials = 120
    for trial in range(trials):
        noise = rng.normal(0, 1, n + 200)
        value, path = 0.0, []
        for each in noise:
            value = 0.9 * value + each
            path.append(value)
        series = np.array(path[200:])[:, None]
        length = block_length(series)
        found = resample_blocks(TimeSeries(series, (n,)), length, n_resamples=300, seed=(trial,))
        low, high = (float(bound) for bound in bounds(found[0]))
        hits += low <= 0 <= high
        widths.append((high - low) / (2 * 1.96 * series.std() / math.sqrt(n)))
    assert 0.86 <= hits / trials <= 0.99
    assert 3.0 < np.mean(widths) < math.sqrt(19) * 1.05


def test_length_follows_the_memory_of_the_series() -> None:
    rng = np.random.default_rng(1)
    n = 4000
    blind = rng.normal(0, 1, (n, 1))
    path = np.zeros((n, 1))
    for index in range(1, n):
        path[index] = 0.8 * path[index - 1] + blind[index]
    short, long = block_length(blind), block_length(path)
    assert short <= 5
    assert 15 <= long <= 90
    assert block_length(np.hstack([blind, path])) == long


def test_length_of_an_ar1_series_is_near_its_closed_form() -> None:
    """b = (2·G²/D)^(1/3)·n^(1/3), with G and the spectrum of an AR(1) known in closed form."""
    rho, n = 0.7, 60_000
    spectrum = (1 + rho) / (1 - rho)
    curvature = 2 * rho / (1 - rho) ** 2
    exact = (2 * curvature**2 / (4 / 3 * spectrum**2)) ** (1 / 3) * n ** (1 / 3)
    rng = np.random.default_rng(2)
    path = np.zeros(n)
    noise = rng.normal(0, 1, n)
    for index in range(1, n):
        path[index] = rho * path[index - 1] + noise[index]
    assert block_length(path[:, None]) == pytest.approx(exact, rel=0.2)


@pytest.mark.parametrize(
    ("series", "length"),
    [
        (np.ones((500, 2)), 1),
        (np.zeros((500, 1)), 1),
        (np.ones((3, 1)), 1),
        (np.linspace(0, 1, 1000)[:, None], 1000 // FEWEST_BLOCKS),
        (np.linspace(0, 1, 40_000)[:, None], 600),
    ],
    ids=["constant", "zero", "tiny", "trend", "long-trend"],
)
def test_length_stays_within_its_bounds(series: Floats, length: int) -> None:
    assert block_length(series) == length


@pytest.mark.parametrize(
    ("sizes", "length", "n_resamples"), [((3,), 0, 5), ((3,), 1, 0), ((), 1, 5), ((3, 0), 1, 5)]
)
def test_what_can_not_be_drawn_is_refused(sizes: tuple[int, ...], length: int, n_resamples: int) -> None:
    with pytest.raises(StatisticsError, match="can't draw"):
        resample_blocks(TimeSeries(np.ones((3, 1)), sizes), length, n_resamples=n_resamples, seed=(0,))


def test_a_series_without_values_has_no_mean() -> None:
    values = np.column_stack([np.full(20, np.nan), np.ones(20)])
    found = resample_blocks(TimeSeries(values, (20,)), 4, n_resamples=10, seed=(0,))
    assert np.isnan(found[0]).all()
    assert found[1] == pytest.approx(np.ones(10))
