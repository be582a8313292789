"""The bootstrap against scipy, against a plain loop, and against the truth."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from rbx.errors import StatisticsError
from rbx.report.bootstrap import (
    RatioColumns,
    Replicates,
    ResamplingTask,
    TailColumn,
    bounds,
    replicate,
    resample_counts,
)
from rbx.report.interval import percentile_interval

Floats = NDArray[np.float64]


def _one_per_prompt(*values: Floats) -> RatioColumns:
    sums = np.column_stack(values)
    return RatioColumns(sums, np.ones_like(sums))


def _all_counts(n_prompts: int, n_resamples: int, seed: int) -> Floats:
    return np.concatenate([c.astype(np.float64) for c in resample_counts(n_prompts, n_resamples, seed)])


def test_each_resample_draws_as_many_prompts_as_there_are_and_each_equally_often() -> None:
    counts = _all_counts(40, 4000, 0)
    assert counts.shape == (4000, 40)
    assert (counts.sum(axis=1) == 40).all()
    assert abs(counts.mean(axis=0) - 1).max() < 0.08
    assert abs(counts.var() - (1 - 1 / 40)) < 0.02  # binomial(40, 1/40)


def test_seed_decides_the_resamples_and_zero_is_a_seed() -> None:
    first, again, other = _all_counts(9, 700, 0), _all_counts(9, 700, 0), _all_counts(9, 700, 1)
    assert (first == again).all()
    assert (first != other).any()


def test_mean_and_paired_difference_agree_with_scipy() -> None:
    rng = np.random.default_rng(3)
    a = rng.exponential(2.0, 150)
    b = a * 0.7 + rng.normal(0, 0.4, 150)
    found = replicate(_one_per_prompt(a, b), [], (), n_resamples=10_000, seed=0).means
    theirs = stats.bootstrap((a,), np.mean, n_resamples=10_000, method="percentile", rng=1)
    low, high = bounds(found[0])
    assert low == pytest.approx(theirs.confidence_interval.low, abs=0.03 * a.std() / math.sqrt(150) * 5)
    assert high == pytest.approx(theirs.confidence_interval.high, abs=0.03 * a.std() / math.sqrt(150) * 5)

    def gap(x: Floats, y: Floats, axis: int) -> Floats:
        return np.asarray(x.mean(axis=axis) - y.mean(axis=axis))

    paired = stats.bootstrap((a, b), gap, paired=True, n_resamples=10_000, method="percentile", rng=1)
    low, high = bounds(found[0] - found[1])
    width = float(high - low)
    assert low == pytest.approx(paired.confidence_interval.low, abs=0.05 * width)
    assert high == pytest.approx(paired.confidence_interval.high, abs=0.05 * width)
    # Unpaired intervals of these strongly related values would be far wider.
    unpaired = stats.bootstrap((a, b), gap, n_resamples=2000, method="percentile", rng=1)
    assert width < 0.7 * (unpaired.confidence_interval.high - unpaired.confidence_interval.low)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 12).flatmap(
        lambda p: st.tuples(
            st.just(p),
            st.lists(
                st.tuples(st.integers(0, p - 1), st.floats(-1e3, 1e3, allow_nan=False)),
                min_size=1,
                max_size=40,
            ),
        )
    ),
    st.integers(0, 5),
)
def test_ratios_and_tails_equal_a_loop_that_builds_every_resample(
    case: tuple[int, list[tuple[int, float]]], seed: int
) -> None:
    n_prompts, requests = case
    prompt = np.array([p for p, _ in requests], dtype=np.int64)
    value = np.array([v for _, v in requests])
    columns = RatioColumns(
        np.bincount(prompt, value, n_prompts)[:, None].astype(np.float64),
        np.bincount(prompt, minlength=n_prompts)[:, None].astype(np.float64),
    )
    quantiles = (0.5, 0.95, 0.99, 1.0)
    found = replicate(columns, [TailColumn.of(value, prompt)], quantiles, n_resamples=30, seed=seed)
    for index, counts in enumerate(_all_counts(n_prompts, 30, seed)):
        built = np.repeat(value, counts[prompt].astype(int))
        if not len(built):
            assert np.isnan(found.means[0, index])
            assert np.isnan(found.tails[0, :, index]).all()
            continue
        assert found.means[0, index] == pytest.approx(built.mean(), rel=1e-9, abs=1e-9)
        expected = np.percentile(built, [100 * q for q in quantiles])
        assert found.tails[0, :, index] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("edges", [(0, 1, 2, 3, 4), (0, 3, 4), (0, 2, 4), (0, 4)])
def test_shards_put_together_are_the_resamples_to_the_last_bit(edges: tuple[int, ...]) -> None:
    """As workers of a cluster take them: each draws its own chunks, the last of which is cut short."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, (37, 4)).astype(np.float64)
    columns = RatioColumns(np.where(counts > 0, rng.random((37, 4)), 0.0), counts)
    tails = [TailColumn.of(rng.random(80), rng.integers(0, 37, 80)) for _ in range(2)]

    def in_shards(task: ResamplingTask) -> Replicates:
        assert task.n_chunks == 4
        parts = [task.take(first, last) for first, last in pairwise(edges)]
        return Replicates(
            np.concatenate([part.means for part in parts], axis=1),
            np.concatenate([part.tails for part in parts], axis=2),
        )

    whole = replicate(columns, tails, (0.5, 0.99), n_resamples=1777, seed=3)
    sharded = replicate(columns, tails, (0.5, 0.99), n_resamples=1777, seed=3, run=in_shards)
    assert np.array_equal(sharded.means, whole.means)
    assert np.array_equal(sharded.tails, whole.tails)


def test_repeats_of_a_prompt_are_drawn_together() -> None:
    rng = np.random.default_rng(0)
    level = rng.normal(0, 1, 60)
    copies = 5  # five identical repeats add no information
    once = replicate(_one_per_prompt(level), [], (), n_resamples=3000, seed=0).means[0]
    columns = RatioColumns(copies * level[:, None], np.full((60, 1), float(copies)))
    often = replicate(columns, [], (), n_resamples=3000, seed=0).means[0]
    assert often == pytest.approx(once)


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(11)
    hits = 0
    trials = 300
    for trial in range(trials):
        repeats = rng.integers(1, 4, 80)
        level = rng.normal(2.0, 1.0, 80)  # prompts differ; their repeats differ less
        sums = np.array([np.sum(m + rng.normal(0, 0.3, r)) for m, r in zip(level, repeats, strict=True)])
        columns = RatioColumns(sums[:, None], repeats[:, None].astype(np.float64))
        low, high = bounds(replicate(columns, [], (), n_resamples=400, seed=trial).means[0])
        hits += bool(low <= 2.0 <= high)
    assert 0.90 <= hits / trials <= 0.985


def test_rounding_does_not_grow_with_the_level_of_the_values() -> None:
    tiny = np.random.default_rng(0).normal(0, 1e-6, 50)
    low, high = bounds(replicate(_one_per_prompt(1e6 + tiny), [], (), n_resamples=500, seed=0).means[0])
    assert high - low == pytest.approx(4 * 1e-6 / math.sqrt(50), rel=0.5)


def test_rounding_noise_of_a_difference_is_not_taken_for_width() -> None:
    assert percentile_interval(1e-17, -1e-16, 1e-16, 50, scale=1.0).status == "degenerate"
    assert percentile_interval(1e-17, -1e-16, 1e-16, 50, scale=1e-6).status == "ok"


def test_sums_with_nan_are_refused() -> None:
    with pytest.raises(StatisticsError, match="NaN"):
        replicate(_one_per_prompt(np.array([1.0, np.nan])), [], (), n_resamples=10, seed=0)


def test_no_prompt_or_no_resample_is_refused() -> None:
    with pytest.raises(StatisticsError, match="0 prompts"):
        replicate(RatioColumns(np.zeros((0, 1)), np.zeros((0, 1))), [], (), n_resamples=10, seed=0)
    with pytest.raises(StatisticsError, match="0 resamples"):
        replicate(_one_per_prompt(np.ones(2)), [], (), n_resamples=0, seed=0)


@pytest.mark.parametrize(
    ("value", "low", "high", "prompts", "status", "words"),
    [
        (1.0, 0.5, 1.5, 1, "not_estimable", "at least 2 prompts, there is 1"),
        (math.nan, math.nan, math.nan, 9, "not_estimable", "no value"),
        (1.0, math.nan, math.nan, 9, "not_estimable", "some resamples"),
        (1.0, 1.0, 1.0, 9, "degenerate", "same value"),
        (0.0, 0.0, 0.0, 9, "degenerate", "same value"),
        (1.0, 0.5, 1.5, 9, "ok", ""),
        (2e-5, 1.9e-5, 2.1e-5, 9, "ok", ""),
    ],
)
def test_what_can_not_be_estimated_is_said(
    value: float, low: float, high: float, prompts: int, status: str, words: str
) -> None:
    interval = percentile_interval(value, low, high, prompts)
    assert interval.status == status
    assert words in interval.reason
    assert interval.excludes_zero == (status == "ok")
