"""Step-time models recovered from traces whose true coefficients are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from rbx.heads.step_time.design import COEFFICIENTS, usable_steps
from rbx.heads.step_time.fit import (
    SMALLEST_STEP_S,
    StallRule,
    nonnegative_fit,
    relative_weights,
    robust_fit,
)
from rbx.heads.step_time.identifiability import coefficient_intervals, collinear_groups
from tests.heads import step_traces
from tests.heads.step_traces import Scene, draw

MODELS = {"A": step_traces.A, "B": step_traces.B, "C": step_traces.C}


@pytest.mark.parametrize("feature_set", COEFFICIENTS)
def test_without_noise_the_coefficients_come_back(feature_set: str, tmp_path: Path) -> None:
    drawn = draw(tmp_path, MODELS[feature_set], Scene(n=800))
    steps = usable_steps([drawn.trace], block_s=1.0)
    np.testing.assert_allclose(steps.seconds, drawn.clean_s[1:], rtol=1e-9)
    columns = steps.columns(feature_set)
    np.testing.assert_allclose(robust_fit(columns, steps.seconds), MODELS[feature_set], rtol=1e-6)


@pytest.mark.parametrize("feature_set", ["A", "C"])
def test_model_b_contains_the_others(feature_set: str, tmp_path: Path) -> None:
    drawn = draw(tmp_path, MODELS[feature_set], Scene(n=800))
    steps = usable_steps([drawn.trace], block_s=1.0)
    fitted = robust_fit(steps.columns("B"), steps.seconds)
    if feature_set == "A":
        b0, b1, b2, b3 = step_traces.A
        expected = (b0, b1 + b3 / 2, b1, b2, b3 / 2, b3)
    else:
        expected = (*step_traces.C, 0.0, 0.0, 0.0)
    np.testing.assert_allclose(fitted, expected, rtol=1e-5, atol=1e-14)


@pytest.mark.parametrize(("feature_set", "largest_error"), [("A", 0.02), ("B", 0.12), ("C", 0.02)])
def test_noise_and_stalls_leave_the_coefficients(
    feature_set: str, largest_error: float, tmp_path: Path
) -> None:
    drawn = draw(tmp_path, MODELS[feature_set], Scene(n=6000, noise=0.05, stall_share=0.01))
    steps = usable_steps([drawn.trace], block_s=2.0)
    rule = StallRule.of(steps)
    np.testing.assert_array_equal(rule.stalled(steps), drawn.stalled[1:])
    kept = steps.at(~rule.stalled(steps))
    columns = kept.columns(feature_set)
    weights = relative_weights(columns, kept.seconds)
    fitted = nonnegative_fit(columns, kept.seconds, weights)
    np.testing.assert_allclose(fitted, MODELS[feature_set], rtol=largest_error)
    # Predictions are right on average: neither the median nor, as with 1 / measured, below it.
    bias = np.mean(columns @ fitted / drawn.clean_s[1:][~drawn.stalled[1:]]) - 1.0
    assert abs(bias) < 0.002
    interval = coefficient_intervals(columns, kept.seconds, weights, kept.block, np.random.default_rng(0))
    truth = np.array(MODELS[feature_set])
    # 95 % intervals: each within one and a half of its own half-widths.
    assert np.all(np.abs(truth - interval.mean(axis=1)) < 1.5 * np.ptp(interval, axis=1) / 2)
    assert np.all(np.ptp(interval, axis=1) < 0.5 * truth)


def test_a_fifth_of_the_steps_may_stall(tmp_path: Path) -> None:
    drawn = draw(tmp_path, step_traces.A, Scene(n=2000, noise=0.03, stall_share=0.2, stall_s=2.0))
    steps = usable_steps([drawn.trace], block_s=10.0)
    naive = nonnegative_fit(steps.columns("A"), steps.seconds, np.ones(len(steps)))
    assert naive[0] > 10 * step_traces.A[0]
    rule = StallRule.of(steps)
    np.testing.assert_array_equal(rule.stalled(steps), drawn.stalled[1:])
    assert rule.coefficients[0] == pytest.approx(step_traces.A[0], rel=0.05)


def test_a_clean_trace_has_no_stalls(tmp_path: Path) -> None:
    drawn = draw(tmp_path, step_traces.A, Scene(n=2000, noise=0.1))
    steps = usable_steps([drawn.trace], block_s=10.0)
    assert not StallRule.of(steps).stalled(steps).any()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), weighted=st.booleans())
def test_the_fit_is_the_bounded_least_squares_of_scipy(seed: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    columns = np.column_stack([np.ones(60), rng.random((60, 3)) * [10.0, 1e4, 1e6]])
    truth = np.maximum(rng.normal(size=4), 0.0) * [1e-2, 1e-4, 1e-7, 1e-9]
    seconds = columns @ truth + 2e-3 * rng.standard_normal(60)
    weights = rng.uniform(1.0, 100.0, 60) if weighted else np.ones(60)
    fitted = nonnegative_fit(columns, seconds, weights)
    assert fitted[0] >= SMALLEST_STEP_S
    assert (fitted >= 0.0).all()
    scale = np.array([1.0, 10.0, 1e4, 1e6])
    bounds = (np.array([SMALLEST_STEP_S, 0.0, 0.0, 0.0]), np.inf)
    other = lsq_linear(
        columns / scale * weights[:, None], seconds * weights, bounds, tol=1e-14, method="bvls"
    )
    assert _loss(columns, seconds, weights, fitted) == pytest.approx(2 * other.cost, rel=1e-9, abs=1e-15)
    np.testing.assert_allclose(fitted * scale, other.x, rtol=1e-5, atol=1e-9)


def _loss(columns: np.ndarray, seconds: np.ndarray, weights: np.ndarray, fitted: np.ndarray) -> float:
    return float(np.sum((weights * (columns @ fitted - seconds)) ** 2))


def test_intervals_by_sums_are_those_of_plain_resampling(tmp_path: Path) -> None:
    drawn = draw(tmp_path, step_traces.A, Scene(n=600, noise=0.1))
    steps = usable_steps([drawn.trace], block_s=1.0)
    columns, weights = steps.columns("A"), 1.0 / steps.seconds
    found = coefficient_intervals(columns, steps.seconds, weights, steps.block, np.random.default_rng(7))
    rng, names = np.random.default_rng(7), np.unique(steps.block)
    assert len(names) > 5
    fits = []
    for _ in range(500):
        drawn_rows = [
            np.flatnonzero(steps.block == names[i]) for i in rng.integers(0, len(names), len(names))
        ]
        rows = np.concatenate(drawn_rows)
        fits.append(nonnegative_fit(columns[rows], steps.seconds[rows], weights[rows]))
    np.testing.assert_allclose(found, np.percentile(fits, [2.5, 97.5], axis=0).T, rtol=1e-6)


def test_columns_that_move_together_are_found() -> None:
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, 100, 200).astype(np.float64)
    columns = np.column_stack([np.ones(200), tokens, 500.0 * tokens, np.zeros(200), rng.random(200)])
    condition, groups = collinear_groups(columns, np.ones(200))
    assert condition > 1e8
    assert groups[0][1] == [1, 2]
    apart = np.column_stack([np.ones(200), tokens, rng.permutation(tokens)])
    condition, groups = collinear_groups(apart, np.ones(200))
    assert groups == []
    lengths = np.linalg.norm(apart, axis=0)
    assert condition == pytest.approx(np.linalg.cond(apart / lengths), rel=1e-9)
