"""BEAR's gains against values worked out by hand, and their intervals against a loop over resamples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rbx.config.policy import BearPolicy, RouteBalancePolicy, RoutedPolicy
from rbx.report.ontime.gains import NOT_POSITIVE, Comparison
from rbx.report.ontime.series import series_of
from rbx.report.ontime.study import OnTimeResult, OnTimeStudy, study_on_time
from rbx.report.ontime.words import gain_words
from rbx.report.paired import Resampling
from rbx.report.point import to_points
from tests.report.ontime.conftest import RESAMPLES
from tests.report.ontime.handmade import Served, handmade_sweep
from tests.report.sweeps import Policy

BEAR = BearPolicy()
LPS = BearPolicy(ttft="lps")
BLIND = BearPolicy(rule="soft", ttft=None)
QUEUE = RoutedPolicy(router="passthrough", dispatch="shortest-queue")
RB_THIRDS = RouteBalancePolicy(weights=(1 / 3, 1 / 3, 1 / 3))
RB_QUALITY = RouteBalancePolicy(weights=(0.8, 0.1, 0.1))
RB_BEA = RouteBalancePolicy(weights=(0.8, 0.1, 0.1), latency="bea")
N = 40
QUICK = Resampling(n_resamples=200)


def _worth(mean: float, number: int) -> list[Served]:
    """Requests in time and free of cost whose scores average ``mean``, each policy's in its own order."""
    steps = np.linspace(-0.04, 0.04, N) if mean else np.zeros(N)
    order = np.random.default_rng(number).permutation(N)
    return [Served(quality=float(mean + step), cost_usd=0.0) for step in steps[order]]


def _study(folder: Path, values: dict[Policy, tuple[float, ...]], rates: tuple[float, ...]) -> OnTimeStudy:
    cells = {
        (rate, policy): _worth(means[index], number)
        for index, rate in enumerate(rates)
        for number, (policy, means) in enumerate(values.items())
    }
    sweep = handmade_sweep(folder / "s", cells)
    assert sweep.on_time is not None
    return study_on_time(to_points(sweep.cells), sweep.on_time, QUICK)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    values: dict[Policy, tuple[float, ...]] = {
        BEAR: (0.6, 0.5, 0.3),
        LPS: (0.7, 0.4, 0.2),
        BLIND: (0.5, 0.1, 0.1),
        QUEUE: (0.4, 0.4, 0.2),
        RB_THIRDS: (0.3, 0.25, 0.2),
        RB_QUALITY: (0.4, 0.1, 0.05),
        RB_BEA: (0.9, 0.9, 0.9),
    }
    study = _study(tmp_path_factory.mktemp("gains"), values, (1.0, 2.0, 4.0))
    assert study.comparison is not None
    return study.comparison


def test_ratios_and_differences_are_at_the_same_rate(compared: Comparison) -> None:
    found = {(each.label, each.rate_per_s): each for each in compared.rivalries}
    assert len(found) == 18
    assert found[QUEUE.label, 2.0].ratio.value == pytest.approx(0.5 / 0.4 - 1)
    assert found[QUEUE.label, 2.0].utility.value == pytest.approx(0.1)
    assert found[BLIND.label, 4.0].ratio.value == pytest.approx(2.0)
    assert found[QUEUE.label, 2.0].attainment.value == 0.0


def test_each_router_stands_by_its_best_setting_over_all_rates(compared: Comparison) -> None:
    """Of thirds (mean 0.25) and quality (mean 0.183) the first stands for RouteBalance at every rate."""
    assert compared.settings["RouteBalance"] == RB_THIRDS.label
    aware = compared.over_latency_aware
    assert aware.terms == tuple((RB_THIRDS.label, rate) for rate in (1.0, 2.0, 4.0))
    ratios = [0.6 / 0.3 - 1, 0.5 / 0.25 - 1, 0.3 / 0.2 - 1]
    assert aware.gain.value == pytest.approx(np.mean(ratios))
    assert aware.median == pytest.approx(1.0)


def test_the_best_baseline_is_picked_anew_at_each_rate_and_never_a_variant(compared: Comparison) -> None:
    assert [(each.label, each.rate_per_s) for each in compared.best] == [
        (BLIND.label, 1.0),
        (QUEUE.label, 2.0),
        (QUEUE.label, 4.0),
    ]
    expected = np.mean([0.6 / 0.5, 0.5 / 0.4, 0.3 / 0.2]) - 1
    assert compared.over_best.gain.value == pytest.approx(expected)


def test_areas_are_trapezoids_over_the_common_rates(compared: Comparison) -> None:
    """Over 1, 2 and 4: (a + b)/2 + (b + c)."""
    areas = {area.label: area for area in compared.areas}
    assert areas[QUEUE.label].bear == pytest.approx(0.55 + 0.8)
    assert areas[QUEUE.label].other == pytest.approx(0.4 + 0.6)
    assert areas[QUEUE.label].gain.value == pytest.approx(0.35)
    best = compared.area_over_best
    assert best is not None
    assert best.label == QUEUE.label


def test_losses_are_named_with_their_rate(compared: Comparison) -> None:
    lost = {(each.label, each.rate_per_s) for each in compared.lost}
    assert lost == {(LPS.label, 1.0), *((RB_BEA.label, rate) for rate in (1.0, 2.0, 4.0))}


def test_what_can_not_be_divided_by_is_left_out_and_said(tmp_path: Path) -> None:
    values: dict[Policy, tuple[float, ...]] = {BEAR: (0.6, 0.5), RB_THIRDS: (0.3, 0.0)}
    comparison = _study(tmp_path, values, (1.0, 2.0)).comparison
    assert comparison is not None
    average = comparison.over_latency_aware
    assert average.gain.value == pytest.approx(1.0)
    assert average.terms == ((RB_THIRDS.label, 1.0),)
    assert average.left_out == ((RB_THIRDS.label, 2.0),)
    second = comparison.rivalries[1]
    assert (second.ratio.status, second.ratio.reason) == ("not_estimable", NOT_POSITIVE)
    assert second.utility.value == pytest.approx(0.5)


def test_a_divisor_that_vanishes_in_some_resamples_leaves_no_upper_end(tmp_path: Path) -> None:
    """One request in forty of RouteBalance is in time: in about a third of the resamples none is."""
    rare = [Served(ttft_s=0.1 if index == 7 else 0.5, quality=0.5, cost_usd=0.0) for index in range(N)]
    cells: dict[tuple[float, Policy], list[Served]] = {
        (1.0, BEAR): _worth(0.6, 0),
        (1.0, RB_THIRDS): rare,
        (2.0, BEAR): _worth(0.5, 0),
        (2.0, RB_THIRDS): _worth(0.4, 1),
    }
    sweep = handmade_sweep(tmp_path / "s", cells)
    assert sweep.on_time is not None
    comparison = study_on_time(to_points(sweep.cells), sweep.on_time, QUICK).comparison
    assert comparison is not None
    first, second = comparison.rivalries
    assert first.ratio.value == pytest.approx(0.6 / (0.5 / N) - 1)
    assert first.ratio.status == "ok"
    assert 0 < first.ratio.low < first.ratio.value
    assert first.ratio.high == np.inf
    assert "% of resamples" in first.ratio.reason
    assert np.isfinite(second.ratio.high)
    gain = comparison.over_latency_aware.gain
    assert gain.value == pytest.approx((47 + 0.25) / 2)
    assert gain.excludes_zero
    assert gain.high == np.inf
    assert gain_words(gain).startswith("+2362 % [above +")


def test_one_rate_has_no_area_and_nobody_to_compare_with_no_comparison(tmp_path: Path) -> None:
    one = _study(tmp_path / "one", {BEAR: (0.6,), QUEUE: (0.3,)}, (1.0,)).comparison
    assert one is not None
    assert one.areas == ()
    assert one.area_over_best is None
    assert one.over_latency_aware.terms == ()
    assert one.over_latency_aware.gain.status == "not_estimable"
    assert _study(tmp_path / "alone", {BEAR: (0.6,)}, (1.0,)).comparison is None
    assert _study(tmp_path / "none", {LPS: (0.6,), QUEUE: (0.3,)}, (1.0,)).comparison is None


def _replicates(study: OnTimeStudy, results: list[OnTimeResult]) -> NDArray[np.float64]:
    """OnTimeUtility of some points on each resample of two runs of 110 requests, in plain loops."""
    (length,) = study.block_lengths
    rng = np.random.default_rng([0, 0])
    starts = [rng.integers(0, 110, size=(RESAMPLES, -(-110 // length))) for _ in range(2)]
    found = np.empty((len(results), RESAMPLES))
    for row, result in enumerate(results):
        worth = series_of(result.point, study.rule)[:, 0]
        for index in range(RESAMPLES):
            drawn = []
            for run in range(2):
                blocks = [[(s + k) % 110 for k in range(length)] for s in starts[run][index].tolist()]
                drawn.append(worth[110 * run + np.concatenate(blocks)[:110].astype(int)])
            found[row, index] = np.nanmean(np.concatenate(drawn))
    return found


def test_intervals_are_those_of_resamples_shared_by_policies_and_rates(study: OnTimeStudy) -> None:
    comparison = study.comparison
    assert comparison is not None
    point = {(result.point.label, result.point.rate_per_s): result for result in study.results}
    pairs = [((BEAR.label, each.rate_per_s), (each.label, each.rate_per_s)) for each in comparison.best]
    assert len(pairs) == 3
    mine = _replicates(study, [point[a] for a, _ in pairs])
    theirs = _replicates(study, [point[b] for _, b in pairs])
    for row, each in enumerate(comparison.best):
        low, high = np.quantile(mine[row] / theirs[row] - 1, [0.025, 0.975])
        assert (each.ratio.low, each.ratio.high) == pytest.approx((low, high))
        low, high = np.quantile(mine[row] - theirs[row], [0.025, 0.975])
        assert (each.utility.low, each.utility.high) == pytest.approx((low, high))
    low, high = np.quantile((mine / theirs - 1).mean(axis=0), [0.025, 0.975])
    gain = comparison.over_best.gain
    assert (gain.low, gain.high) == pytest.approx((low, high))
    assert gain.low < gain.value < gain.high
    area = next(each for each in comparison.areas if each.label == "passthrough/round-robin")
    other = _replicates(study, [point[area.label, rate] for rate in area.rates_per_s])
    rates = np.array([3.0, 6.0, 12.0])
    ratio = np.trapezoid(mine, rates, axis=0) / np.trapezoid(other, rates, axis=0) - 1
    assert (area.gain.low, area.gain.high) == pytest.approx(tuple(np.quantile(ratio, [0.025, 0.975])))


def test_pairing_over_time_makes_differences_narrower(study: OnTimeStudy) -> None:
    comparison = study.comparison
    assert comparison is not None
    each = next(r for r in comparison.rivalries if r.label == "hard/lps" and r.rate_per_s == 6.0)
    at = {result.point.label: result for result in study.at(6.0)}
    alone = [at[label].over_time["on_time_utility"] for label in ("bear", "hard/lps")]
    widths = np.array([interval.high - interval.low for interval in alone])
    assert each.utility.high - each.utility.low < 0.9 * np.sqrt((widths**2).sum())
