"""Differences, duels and reference lines, recomputed from the records by other means."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from rbx.config.policy import RoutedPolicy
from rbx.errors import UsageError
from rbx.report.analysis import Analysis, RateResult, analyse
from rbx.report.load import read_sweep
from rbx.report.paired import Resampling
from rbx.report.plane import PLANES
from rbx.report.point import Point
from tests.report.sweeps import POLICIES, SweepShape, write_sweep

QUICK = Resampling(n_resamples=300)


def test_estimates_are_the_metrics_and_lie_in_their_intervals(analysis: Analysis) -> None:
    assert len(analysis.results) == 30
    for result in analysis.results:
        m = result.point.metrics
        assert result.means["quality"].value == pytest.approx(m.quality_mean)
        assert result.means["e2e_s"].value == pytest.approx(m.e2e_s.mean)
        assert result.means["throughput_per_s"].value == pytest.approx(m.throughput_window_per_s)
        assert result.means["cost_usd"].value == pytest.approx(m.cost_per_request_usd)
        assert result.tails["e2e_s", 0.99].value == pytest.approx(m.e2e_s.p99)
        for metric, interval in result.means.items():
            if metric == "throughput_per_s" and interval.value == 0:  # nothing completes in a short window
                assert interval.status == "degenerate"
                continue
            assert interval.status == "ok"
            assert interval.low < interval.value < interval.high


def test_differences_are_against_the_baseline_of_the_same_rate(analysis: Analysis) -> None:
    assert analysis.baseline_label == "passthrough/shortest-queue"
    for rate in analysis.rates:
        base = rate.baseline
        assert base is not None
        assert base.against is None
        for result in rate.results:
            if result is base:
                continue
            assert result.against is not None
            for metric, interval in result.against.means.items():
                expected = result.means[metric].value - base.means[metric].value
                assert interval.value == pytest.approx(expected)


def test_pairing_makes_differences_narrower_than_the_two_intervals_alone(analysis: Analysis) -> None:
    """Round-robin and shortest-queue answer the same prompts with much the same mix."""
    rate = analysis.rates[0]
    other = next(r for r in rate.results if r.point.label == "passthrough/round-robin")
    assert rate.baseline is not None
    assert other.against is not None
    gap = other.against.means["quality"]
    alone = [r.means["quality"].high - r.means["quality"].low for r in (other, rate.baseline)]
    assert gap.high - gap.low < 0.9 * math.hypot(*alone)


def test_other_baselines_can_be_asked_for_and_unknown_ones_are_refused(sweep_folder: Path) -> None:
    sweep = read_sweep(sweep_folder)
    assert analyse(sweep, baseline=POLICIES[0].label, resampling=QUICK).baseline_label == POLICIES[0].label
    with pytest.raises(UsageError, match=r"no such policy; there are: rb q0\.33"):
        analyse(sweep, baseline="nothing", resampling=QUICK)


def test_without_passthrough_the_first_policy_is_the_baseline(tmp_path: Path) -> None:
    shape = SweepShape(policies=POLICIES[:2], rates_per_s=(6.0,), n_prompts=20, n_requests=20)
    found = analyse(read_sweep(write_sweep(tmp_path / "s", shape)), baseline=None, resampling=QUICK)
    assert found.baseline_label == POLICIES[0].label


def test_the_shortest_queue_on_arrival_stands_in_for_the_batched_one(tmp_path: Path) -> None:
    on_arrival = RoutedPolicy(router="passthrough", dispatch="shortest-queue", batched=False)
    shape = SweepShape(policies=(POLICIES[0], on_arrival), rates_per_s=(6.0,), n_prompts=20, n_requests=20)
    found = analyse(read_sweep(write_sweep(tmp_path / "s", shape)), baseline=None, resampling=QUICK)
    assert found.baseline_label == on_arrival.label


def test_different_seeds_are_not_paired(tmp_path: Path) -> None:
    shape = SweepShape(
        policies=POLICIES[5:7],
        rates_per_s=(6.0,),
        seeds=(0, 1),
        n_prompts=20,
        n_requests=20,
        skip=frozenset({2}),
    )
    found = analyse(read_sweep(write_sweep(tmp_path / "s", shape)), baseline=None, resampling=QUICK)
    against = found.rates[0].results[0].against
    assert against is not None
    assert against.means["quality"].status == "not_estimable"
    assert against.means["quality"].reason == "not paired: seeds [0] against [0, 1]"
    assert against.tails["e2e_s", 0.99].status == "not_estimable"


def test_records_that_belie_their_workload_are_not_paired(tmp_path: Path) -> None:
    def swap_prompts(columns: dict[str, object], summary: dict[str, object]) -> None:
        columns["prompt_id"] = np.roll(np.asarray(columns["prompt_id"]), 1)

    shape = SweepShape(
        policies=POLICIES[5:7], rates_per_s=(6.0,), n_prompts=20, n_requests=20, tamper={0: swap_prompts}
    )
    found = analyse(read_sweep(write_sweep(tmp_path / "s", shape)), baseline=None, resampling=QUICK)
    against = found.rates[0].results[0].against
    assert against is not None
    assert "different prompts for the same workload" in against.means["quality"].reason


def test_a_single_prompt_has_estimates_but_no_intervals(tmp_path: Path) -> None:
    shape = SweepShape(policies=POLICIES[4:7], rates_per_s=(6.0,), n_prompts=1, n_requests=5)
    found = analyse(read_sweep(write_sweep(tmp_path / "s", shape)), baseline=None, resampling=QUICK)
    interval = found.results[0].means["e2e_s"]
    assert interval.value > 0
    assert interval.status == "not_estimable"


def test_identical_answers_give_a_degenerate_difference(tmp_path: Path) -> None:
    """Scores that are all the same leave nothing to resample, and that is said."""

    def same_score(columns: dict[str, object], summary: dict[str, object]) -> None:
        columns["quality"] = np.full(20, 0.5)

    shape = SweepShape(
        policies=POLICIES[5:7],
        rates_per_s=(6.0,),
        n_prompts=20,
        n_requests=20,
        tamper={0: same_score, 1: same_score},
    )
    found = analyse(read_sweep(write_sweep(tmp_path / "s", shape)), baseline=None, resampling=QUICK)
    result = found.rates[0].results[0]
    assert result.means["quality"].status == "degenerate"
    assert result.against is not None
    assert result.against.means["quality"].status == "degenerate"
    assert not result.against.means["quality"].excludes_zero


def _dominated(rate: RateResult, baseline: Point, plane: str) -> bool:
    for result in rate.results:
        m, b = result.point.metrics, baseline.metrics
        if not result.point.is_fused:
            continue
        better = {
            "latency": (m.e2e_s.mean <= b.e2e_s.mean, m.e2e_s.mean < b.e2e_s.mean),
            "cost": (
                m.cost_per_request_usd <= b.cost_per_request_usd,
                m.cost_per_request_usd < b.cost_per_request_usd,
            ),
            "throughput": (
                m.throughput_window_per_s >= b.throughput_window_per_s,
                m.throughput_window_per_s > b.throughput_window_per_s,
            ),
        }[plane]
        if m.quality_mean >= b.quality_mean and better[0] and (better[1] or m.quality_mean > b.quality_mean):
            return True
    return False


def test_duels_say_what_a_plain_search_says(analysis: Analysis) -> None:
    outcomes = set()
    for rate in analysis.rates:
        assert len(rate.duels) == 5 * len(PLANES)
        for duel in rate.duels:
            assert duel.won == _dominated(rate, duel.baseline, duel.plane.name)
            outcomes.add(duel.won)
            if duel.at_quality is not None:
                assert duel.at_quality.quality_gain.value >= 0
                fused = [r.point for r in rate.results if r.point.is_fused]
                fair = [p for p in fused if p.metrics.quality_mean >= duel.baseline.metrics.quality_mean]
                best = max(duel.plane.gain(p) for p in fair)
                assert duel.at_quality.saving.value == pytest.approx(best - duel.plane.gain(duel.baseline))
            if duel.at_axis is not None:
                assert duel.at_axis.saving.value >= 0
            if duel.verdict == "sure":
                assert duel.won
    assert outcomes == {True, False}


def test_reference_lines_follow_from_the_labels(analysis: Analysis) -> None:
    labels = analysis.sweep.labels
    rate = analysis.rates[0]
    score = labels.score[rate.results[0].point.prompts]
    means = {model: np.nanmean(score[:, i]) for i, model in enumerate(labels.models)}
    found = rate.references
    assert found.oracle.value == pytest.approx(np.nanmean(np.nanmax(score, axis=1)))
    assert found.random.value == pytest.approx(np.mean(list(means.values())))
    assert found.best_single.value == pytest.approx(max(means.values()))
    assert means[found.best_single_model] == max(means.values())
    assert found.coverage == pytest.approx(np.isfinite(score).mean())
    assert found.coverage < 1


def test_the_blind_mix_holds_shares_and_forgets_prompts(analysis: Analysis) -> None:
    labels = analysis.sweep.labels
    by_label = {result.point.label: result for result in analysis.rates[0].results}
    for result in by_label.values():
        models = np.concatenate([c.requests.model[c.requests.scored] for c in result.point.cells])
        score = labels.score[result.point.prompts]
        expected = sum(
            (models == model).mean() * np.nanmean(score[:, i]) for i, model in enumerate(labels.models)
        )
        assert result.mix.quality.value == pytest.approx(expected)
        assert result.mix.gain.value == pytest.approx(result.point.metrics.quality_mean - expected)
    # A policy that reads prompts gains on its mix; one that sends all to one model can't.
    assert by_label["rb q0.80 l0.10 c0.10"].mix.gain.low > 0
    always = by_label["always:Qwen2.5-3B/shortest-queue"].mix.gain
    assert always.low <= 0.02
    assert always.high >= -0.02


def test_winners_beat_the_baseline_on_their_axis(analysis: Analysis) -> None:
    for rate in analysis.rates:
        best, *rest = rate.winners
        assert best.plane is None
        assert best.result.point.metrics.quality_mean == max(
            r.point.metrics.quality_mean for r in rate.results
        )
        assert [winner.plane for winner in rest] == list(PLANES)
        for winner in rest:
            assert winner.saving is None or winner.saving.value > 0
            assert winner.quality_gain is None or winner.quality_gain.value >= 0
