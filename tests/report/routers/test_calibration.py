from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rbx.report.paired import Resampling
from rbx.report.routers.calibration import calibration_row, equal_mass_bins
from rbx.report.routers.means import drawn_prompts
from rbx.report.routers.population import Material, Population

QUICK = Resampling(n_resamples=200)


def people(material: Material, score: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Population:
    n = len(score)
    return replace(
        material.population,
        prompt_ids=tuple(f"p{k}" for k in range(n)),
        score=score,
        n_test=n,
        models=("a", "b"),
    )


def test_bins_have_equal_mass_and_equal_values_stay_together() -> None:
    rng = np.random.default_rng(0)
    assert np.bincount(equal_mass_bins(rng.random((100, 3))).ravel()).tolist() == [30] * 10
    tied = np.round(rng.random((100, 3)), 1)
    bins = equal_mass_bins(tied)
    for value in np.unique(tied):
        assert len(set(bins[tied == value].tolist())) == 1


def test_a_constant_prediction_is_off_by_its_distance_to_the_mean(material: Material) -> None:
    label = (np.random.default_rng(1).random((200, 2)) < 0.3).astype(np.float64)
    row = calibration_row("any", np.full((200, 2), 0.8), people(material, label), QUICK)
    assert len(row.bins) == 1
    assert row.error.value == pytest.approx(0.8 - label.mean())
    assert row.bias.value == pytest.approx(0.8 - label.mean())
    assert row.bins[0].observed.value == pytest.approx(label.mean())


def test_the_error_is_the_weighted_gap_of_bins(material: Material) -> None:
    rng = np.random.default_rng(2)
    score = rng.normal(0.5, 0.4, (150, 2))
    label = (rng.random((150, 2)) < 0.5).astype(np.float64)
    row = calibration_row("any", score, people(material, label), QUICK)
    bins = equal_mass_bins(score)
    by_hand = sum(
        (bins == k).mean() * abs(score[bins == k].mean() - label[bins == k].mean())
        for k in range(bins.max() + 1)
    )
    assert row.error.value == pytest.approx(by_hand)
    assert row.outside == pytest.approx(float(((score < 0) | (score > 1)).mean()))
    assert sum(each.n for each in row.bins) == row.n_values == 300


def test_intervals_are_those_of_bins_filled_anew_from_the_drawn_prompts(material: Material) -> None:
    rng = np.random.default_rng(4)
    score = np.round(rng.normal(0.5, 0.3, (60, 2)), 1)
    label = (rng.random((60, 2)) < 0.5).astype(np.float64)
    resampling = Resampling(n_resamples=150, seed=5)
    row = calibration_row("any", score, people(material, label), resampling)
    bins = equal_mass_bins(score)
    errors, observed = [], []
    for counts in drawn_prompts(60, resampling):
        for drawn in counts:
            rows = np.repeat(np.arange(60), drawn)
            which, s, y = bins[rows].ravel(), score[rows].ravel(), label[rows].ravel()
            errors.append(
                sum((which == k).mean() * abs((s - y)[which == k].mean()) for k in np.unique(which))
            )
            observed.append(y[which == 2].mean())
    ends = [0.025, 0.975]
    assert [row.error.low, row.error.high] == pytest.approx(np.quantile(errors, ends).tolist())
    third = row.bins[2].observed
    assert [third.low, third.high] == pytest.approx(np.quantile(observed, ends).tolist())


def test_a_forecast_that_knows_the_chances_is_nearly_calibrated(material: Material) -> None:
    rng = np.random.default_rng(3)
    chance = rng.random((4000, 2))
    label = (rng.random((4000, 2)) < chance).astype(np.float64)
    row = calibration_row("any", chance, people(material, label), QUICK)
    assert row.error.value < 0.03
    turned = calibration_row("any", 1.0 - chance, people(material, label), QUICK)
    assert turned.error.value > 0.4
