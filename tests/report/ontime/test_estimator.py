"""Errors of TTFT predictions against values worked out by hand, and rank correlation against scipy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from rbx.config.policy import BearPolicy, RoutedPolicy
from rbx.report.load import read_sweep
from rbx.report.ontime.estimator import Confusion, errors, judge_estimator
from rbx.report.ontime.study import OnTimeStudy
from rbx.report.point import to_points
from tests.report.ontime.handmade import Served, handmade_sweep, write_handmade

BEAR = BearPolicy()
QUEUE = RoutedPolicy(router="passthrough", dispatch="shortest-queue")


def test_errors_confusion_and_regimes_by_hand(tmp_path: Path) -> None:
    requests = [
        Served(ttft_s=0.05, predicted_s=0.04, target_s=0.2),  # −20 %, early and early
        Served(ttft_s=0.1, predicted_s=0.15, target_s=0.2),  # +50 %; 100 ms is of the second regime
        Served(ttft_s=0.4, predicted_s=0.1, target_s=0.2),  # −75 %, predicted early, was late
        Served(ttft_s=0.1, predicted_s=0.3, target_s=0.2),  # +200 %, predicted late, was early
        Served(ttft_s=2.0, predicted_s=1.0, target_s=0.2),  # −50 %, late and late
        Served(status="error", predicted_s=0.1),
        Served(ttft_s=0.1, predicted_s=None),
    ]
    sweep = handmade_sweep(
        tmp_path / "s", {(1.0, BEAR): requests, (1.0, QUEUE): requests[5:] * 3 + requests[5:6]}
    )
    points = to_points(sweep.cells)
    found = judge_estimator(points[0])
    assert found is not None
    all_ = found.overall
    ape = [0.2, 0.5, 0.75, 2.0, 0.5]
    gaps = [-0.01, 0.05, -0.3, 0.2, -1.0]
    assert all_.n == 5
    assert all_.mape == pytest.approx(np.mean(ape), rel=1e-6)
    assert all_.median_ape == pytest.approx(0.5, rel=1e-6)
    assert all_.p90_ape == pytest.approx(0.75 + 0.6 * 1.25, rel=1e-6)
    assert all_.bias_s == pytest.approx(np.mean(gaps), rel=1e-6)
    assert all_.relative_bias == pytest.approx(sum(gaps) / 2.65, rel=1e-6)
    assert all_.mean_absolute_s == pytest.approx(1.56 / 5, rel=1e-6)
    assert found.confusion == Confusion(early_early=2, early_late=1, late_early=1, late_late=1)
    assert found.confusion.agreement == pytest.approx(3 / 5)
    assert [regime.n for regime in found.regimes] == [1, 3, 1]
    assert found.regimes[0].bias_s == pytest.approx(-0.01, rel=1e-6)
    assert found.regimes[2].mape == pytest.approx(0.5, rel=1e-6)
    assert np.isnan(found.regimes[2].spearman)


def test_a_request_is_disturbed_by_what_its_instance_is_sent_before_its_first_token(tmp_path: Path) -> None:
    """Request i is dispatched at second i; all are on one instance but the last two."""
    requests = [
        Served(ttft_s=0.5, predicted_s=0.4, target_s=9.0),  # first token before request 1 comes
        Served(ttft_s=1.5, predicted_s=1.2, target_s=1.0),  # request 2 comes at 2 s, before 2.5 s
        Served(ttft_s=1.0, predicted_s=0.5, target_s=1.0),  # request 3 comes just as the first token does
        Served(ttft_s=9.0, predicted_s=9.0, target_s=1.0),  # what follows goes elsewhere
        Served(ttft_s=9.0, predicted_s=3.0, target_s=1.0),
        Served(ttft_s=0.1, predicted_s=0.1, target_s=1.0),
    ]
    folder = write_handmade(tmp_path / "s", {(1.0, BEAR): requests}, instances=[0, 0, 0, 0, 1, 1])
    found = judge_estimator(to_points(read_sweep(folder).cells)[0])
    assert found is not None
    assert (found.undisturbed.n, found.disturbed.n) == (4, 2)
    assert found.disturbed.mape == pytest.approx((0.2 + 2 / 3) / 2, rel=1e-6)
    assert found.undisturbed.mape == pytest.approx((0.2 + 0.5 + 0 + 0) / 4, rel=1e-6)
    assert found.late_disturbed == 1.0
    assert found.late_undisturbed == pytest.approx(1 / 4)


def test_a_policy_that_predicts_nothing_is_not_judged(tmp_path: Path) -> None:
    sweep = handmade_sweep(tmp_path / "s", {(1.0, QUEUE): [Served(), Served()]})
    assert judge_estimator(to_points(sweep.cells)[0]) is None


def test_rank_correlation_is_scipys_with_ties() -> None:
    rng = np.random.default_rng(0)
    measured = rng.lognormal(-2, 1, 300).round(2) + 0.01
    predicted = (measured * rng.lognormal(0, 0.5, 300)).round(1)
    assert len(np.unique(predicted)) < 150
    expected = stats.spearmanr(predicted, measured).statistic
    assert errors(predicted, measured).spearman == pytest.approx(float(expected))
    assert np.isnan(errors(np.ones(9), measured[:9]).spearman)


def test_no_prediction_gives_no_number() -> None:
    found = errors(np.zeros(0), np.zeros(0))
    assert found.n == 0
    assert np.isnan([found.mape, found.median_ape, found.bias_s, found.spearman]).all()
    assert np.isnan(Confusion(0, 0, 0, 0).agreement)


def test_the_better_estimator_shows_as_such(study: OnTimeStudy) -> None:
    by_label = {(each.label, each.rate_per_s): each.overall for each in study.estimators}
    assert len(by_label) == 6
    assert [each.label for each in study.estimators] == ["bear"] * 3 + ["hard/lps"] * 3
    for rate in (3.0, 6.0, 12.0):
        good, poor = by_label["bear", rate], by_label["hard/lps", rate]
        # |exp(0.1·z) − 1| has mean 0.08, and of 0.8 about 0.8
        assert 0.06 < good.mape < 0.11
        assert poor.mape > 0.5
        assert good.spearman > poor.spearman
