"""Figures of the training report against direct counting and scipy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rbx.heads.evaluation import (
    auc,
    bootstrap_mean,
    calibration_error,
    r2,
    report_models,
    report_routing,
    spearman,
)
from rbx.heads.predictions import Predictions

NAN = np.nan


def predictions(quality: NDArray[np.float64]) -> Predictions:
    histogram = np.zeros((*quality.shape, 16))
    histogram[:, :, 1] = 1.0
    models = tuple(f"m{i}" for i in range(quality.shape[1]))
    return Predictions(models, quality, np.full(quality.shape, 100.0), histogram)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30))
def test_auc_is_the_share_of_ordered_pairs(rows: list[tuple[int, bool]]) -> None:
    predicted = np.array([p for p, _ in rows], dtype=float)
    actual = np.array([a for _, a in rows], dtype=float)
    pairs = [1.0 if p > q else 0.5 if p == q else 0.0 for p, a in rows if a for q, b in rows if not b]
    answer = auc(predicted, actual)
    if not pairs:
        assert answer is None
    else:
        assert answer == pytest.approx(np.mean(pairs))


def test_auc_needs_binary_scores() -> None:
    assert auc(np.array([0.1, 0.2]), np.array([0.0, 0.5])) is None


@given(st.integers(0, 500))
def test_spearman_equals_scipys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 6, 20).astype(float), rng.integers(0, 6, 20).astype(float)
    assert spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic)
    assert spearman(x, np.ones(20)) is None
    assert spearman(x[:2], y[:2]) is None


def test_r2_of_the_truth_is_one_and_of_the_mean_is_zero() -> None:
    actual = np.array([1.0, 2.0, 4.0])
    assert r2(actual, actual) == 1.0
    assert r2(np.full(3, actual.mean()), actual) == pytest.approx(0.0)
    assert r2(actual, np.ones(3)) is None


def test_calibration_error_of_a_true_and_of_a_wrong_distribution() -> None:
    rng = np.random.default_rng(0)
    share = np.array([0.2, 0.3, 0.1, 0.4] + [0.0] * 12)
    length: NDArray[np.float64] = (rng.choice(16, 20_000, p=share) * 64 + 5).astype(np.float64)
    assert calibration_error(np.tile(share, (20_000, 1)), length) == pytest.approx(0.0, abs=0.01)
    certain = np.zeros((20_000, 16))
    certain[:, 15] = 1.0  # claims that no answer ends below 960 tokens; in truth all do
    expected = np.mean([np.mean(length < 64 * j) for j in range(1, 16)])
    assert calibration_error(certain, length) == pytest.approx(expected)


def test_missing_labels_are_left_out_not_zero() -> None:
    predicted = predictions(np.array([[0.8], [0.6], [0.4]]))
    (model,) = report_models(predicted, np.array([[1.0], [NAN], [0.0]]), np.array([[90.0], [120.0], [NAN]]))
    assert (model.n_quality, model.n_length) == (2, 2)
    assert model.quality_mae == pytest.approx((0.2 + 0.4) / 2)
    assert model.length_mae_tokens == pytest.approx(15.0)
    assert model.mean_quality == 0.5


def test_a_model_without_test_labels_is_not_estimable() -> None:
    (model,) = report_models(predictions(np.array([[0.8]])), np.array([[NAN]]), np.array([[NAN]]))
    assert (model.n_quality, model.mean_quality, model.quality_auc, model.length_calibration_error) == (
        0, None, None, None,
    )  # fmt: skip


def test_routing_counts_ties_both_ways() -> None:
    quality = np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9], [0.9, 0.1]])
    score = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, NAN]])
    report = report_routing(predictions(quality), score, np.array([0.9, 0.2]), np.random.default_rng(0))
    assert report.n == 4  # the prompt that lacks a label is left out
    assert report.picks_best == pytest.approx(3 / 4)
    assert report.picks_best_random == pytest.approx((1 + 0.5 + 0.5 + 0.5) / 4)
    assert report.n_strict == 3
    assert report.picks_best_strict == pytest.approx(2 / 3)
    assert report.picks_best_strict_random == 0.5
    assert (report.best_single_model, report.best_single) == ("m0", 0.75)
    assert report.oracle == 1.0
    assert report.random == pytest.approx((1 + 0.5 + 0.5 + 0.5) / 4)
    assert report.routed is not None
    assert report.routed.mean == 0.75
    assert report.routed_minus_best_single is not None
    assert report.routed_minus_best_single.mean == 0.0


def test_the_best_single_model_is_chosen_on_the_training_prompts() -> None:
    score = np.array([[0.0, 1.0], [0.0, 1.0]])
    report = report_routing(predictions(score), score, np.array([0.9, 0.2]), np.random.default_rng(0))
    assert report.best_single_model == "m0"
    assert report.best_single == 0.0


def test_a_grid_without_a_fully_labelled_test_prompt_is_not_estimable() -> None:
    report = report_routing(
        predictions(np.ones((1, 2))), np.array([[1.0, NAN]]), np.ones(2), np.random.default_rng(0)
    )
    assert (report.n, report.routed, report.picks_best, report.oracle) == (0, None, None, None)


def test_bootstrap_covers_the_normal_interval_and_admits_when_it_can_not() -> None:
    values = np.random.default_rng(0).normal(3.0, 1.0, 400)
    interval = bootstrap_mean(values, np.random.default_rng(1))
    assert interval is not None
    assert interval.low is not None
    assert interval.high is not None
    half = 1.96 * values.std() / 20
    assert interval.mean - interval.low == pytest.approx(half, rel=0.1)
    assert interval.high - interval.mean == pytest.approx(half, rel=0.1)
    alone = bootstrap_mean(values[:1], np.random.default_rng(1))
    assert alone is not None
    assert (alone.low, alone.high) == (None, None)
    assert bootstrap_mean(values[:0], np.random.default_rng(1)) is None
