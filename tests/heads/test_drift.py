"""The drift factor: it finds a true factor, a stall hardly moves it, and nonsense is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.engine.instance_profile import StepCoefficients
from rbx.errors import EngineError
from rbx.heads.step_time.drift import DriftFactor

TIMES = st.floats(min_value=0.0, exclude_min=True, allow_infinity=False)


@pytest.mark.parametrize("true_factor", [0.55, 0.8, 1.0, 1.3, 1.9])
def test_it_finds_a_true_factor(true_factor: float) -> None:
    rng = np.random.default_rng(0)
    drift = DriftFactor()
    found = []
    for _ in range(3000):
        predicted_s = rng.uniform(0.005, 0.2)
        drift.observe(true_factor * predicted_s * rng.uniform(0.9, 1.1), predicted_s)
        found.append(drift.factor)
    assert np.mean(found[500:]) == pytest.approx(true_factor, rel=0.01)
    assert np.std(found[500:]) < 0.02 * true_factor


def test_without_noise_it_is_the_moving_average() -> None:
    drift, expected = DriftFactor(weight=0.1), 1.0
    for ratio in (1.1, 0.9, 1.2, 1.4, 0.8):
        expected = 0.9 * expected + 0.1 * ratio
        assert drift.observe(ratio * 0.03, 0.03) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("ratio", "bound"), [(5.0, 2.0), (0.1, 0.5)])
def test_it_stays_within_its_bounds(ratio: float, bound: float) -> None:
    drift = DriftFactor()
    for _ in range(1000):
        drift.observe(ratio, 1.0)
    assert drift.factor == bound


@given(st.lists(st.tuples(TIMES, TIMES), max_size=30), TIMES, TIMES, st.floats(0.001, 1.0))
def test_no_step_moves_it_far(
    before: list[tuple[float, float]], actual_s: float, predicted_s: float, weight: float
) -> None:
    drift = DriftFactor(weight=weight)
    for pair in before:
        drift.observe(*pair)
    was = drift.factor
    now = drift.observe(actual_s, predicted_s)
    assert 0.5 <= now <= 2.0
    assert was * (1 - weight / 2) - 1e-12 <= now <= was * (1 + weight) + 1e-12


def test_a_stall_counts_as_a_step_of_twice_the_length() -> None:
    stalled, doubled = DriftFactor(), DriftFactor()
    stalled.observe(1e6, 0.01)
    doubled.observe(0.02, 0.01)
    assert stalled.factor == doubled.factor == pytest.approx(1.05)
    for _ in range(14):
        stalled.observe(0.01, 0.01)
    assert stalled.factor == pytest.approx(1.025, abs=1e-3)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_times_that_are_none_are_refused_and_change_nothing(bad: float) -> None:
    drift = DriftFactor(factor=1.25)
    with pytest.raises(EngineError, match="actual_s is"):
        drift.observe(bad, 0.01)
    with pytest.raises(EngineError, match="predicted_s is"):
        drift.observe(0.01, bad)
    assert drift.factor == 1.25


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weight": 0.0}, "weight is 0"),
        ({"weight": 1.5}, "weight is 1.5"),
        ({"weight": math.nan}, "weight is nan"),
        ({"factor": 2.5}, "factor is 2.5"),
        ({"factor": math.nan}, "factor is nan"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, float], said: str) -> None:
    with pytest.raises(EngineError, match=said):
        DriftFactor(**options)


def test_coefficients_are_scaled_and_stay_those_of_the_fit() -> None:
    coefficients = StepCoefficients("A", "a fit", (0.01, 1e-5, 1e-8, 0.0))
    scaled = DriftFactor(factor=1.5).scaled(coefficients)
    assert (scaled.feature_set, scaled.fit_id) == ("A", "a fit")
    assert scaled.seconds == pytest.approx((0.015, 1.5e-5, 1.5e-8, 0.0))
