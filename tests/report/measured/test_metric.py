"""Every metric by name is the figure that the report has, and its resamples are the report's too."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from rbx.errors import ConfigError
from rbx.report.bootstrap import resample_counts
from rbx.report.load import Sweep, read_sweep
from rbx.report.measured.estimate import difference, ratio, single
from rbx.report.measured.metric import METRICS, Whole, find_metric
from rbx.report.measured.sample import Asked, Sample, draw, streams, value_of
from rbx.report.measured.site import SitePoint, sites
from rbx.report.metrics import Metrics
from rbx.report.ontime.metrics import measure_on_time
from rbx.report.paired import PairedPoints, Resampling
from tests.report.sweeps import MODELS, ON_TIME_POLICIES, POLICIES, TIERS, SweepShape, write_sweep

QUICK = Resampling(n_resamples=400)
OF_THE_REPORT: Mapping[str, Callable[[Metrics], float]] = MappingProxyType(
    {
        "quality": lambda m: m.quality_mean,
        "utility": lambda m: m.utility_mean,
        "coverage": lambda m: m.coverage,
        "mean_e2e_s": lambda m: m.e2e_s.mean,
        "mean_ttft_s": lambda m: m.ttft_s.mean,
        "mean_ttft_from_sent_s": lambda m: m.ttft_from_sent_s.mean,
        "mean_tpot_s": lambda m: m.tpot_s.mean,
        "p50_e2e_s": lambda m: m.e2e_s.p50,
        "p95_e2e_s": lambda m: m.e2e_s.p95,
        "p99_e2e_s": lambda m: m.e2e_s.p99,
        "p50_ttft_s": lambda m: m.ttft_s.p50,
        "p95_ttft_s": lambda m: m.ttft_s.p95,
        "p99_ttft_s": lambda m: m.ttft_s.p99,
        "p50_tpot_s": lambda m: m.tpot_s.p50,
        "p95_tpot_s": lambda m: m.tpot_s.p95,
        "p99_tpot_s": lambda m: m.tpot_s.p99,
        "cost_per_request_usd": lambda m: m.cost_per_request_usd,
        "throughput_per_s": lambda m: m.throughput_window_per_s,
        "throughput_to_last_completion_per_s": lambda m: m.throughput_to_last_completion_per_s,
        "output_tokens_per_s": lambda m: m.output_tokens_per_s,
        "achieved_rate_per_s": lambda m: m.achieved_rate_per_s,
        "duration_s": lambda m: m.duration_s,
        "goodput_per_s": lambda m: m.goodput_per_s,
        "completed_requests": lambda m: m.counts.ok / 2,  # two seeds
        "completed_share": lambda m: m.counts.ok / m.counts.scheduled,
        "slo_met_share": lambda m: m.slo_attainment,
        "exhausted_share": lambda m: m.exhausted_share,
        "hopeless_share": lambda m: m.hopeless_share,
        "fallback_share": lambda m: m.fallback_share,
        "utilization": lambda m: m.utilization,
        "batch_wait_s": lambda m: m.decision.batch_wait_s,
        "scoring_wait_s": lambda m: m.decision.scoring_wait_s,
        "encode_s": lambda m: m.decision.encode_s,
        "score_s": lambda m: m.decision.score_s,
        "decision_compute_s": lambda m: m.decision.encode_s + m.decision.score_s,
        "decision_share_of_ttft": lambda m: m.decision.ttft_share,
        "batch_size": lambda m: m.decision.batch_size,
        "preemptions_per_request": lambda m: m.preemptions / m.counts.scheduled,
        f"model_share:{MODELS[0]}": lambda m: m.model_share.get(MODELS[0], 0.0),
        f"tier_share:{TIERS[3]}": lambda m: m.tier_share.get(TIERS[3], 0.0),
        f"tier_utilization:{TIERS[3]}": lambda m: m.tier_utilization[TIERS[3]],
    }
)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    shape = SweepShape(
        policies=POLICIES[1:8:3],
        rates_per_s=(6.0,),
        seeds=(0, 1),
        n_prompts=40,
        n_requests=55,
        failures=0.05,
        unlabelled=0.05,
    )
    return read_sweep(write_sweep(tmp_path_factory.mktemp("results") / "s", shape))


@pytest.fixture(scope="module")
def points(sweep: Sweep) -> list[SitePoint]:
    site = sites({"s": sweep})["s"]
    return [SitePoint(site, point) for point in site.points]


@pytest.mark.parametrize("name", OF_THE_REPORT)
def test_a_metric_is_the_figure_of_the_report(name: str, points: list[SitePoint]) -> None:
    metric = find_metric(name, "here")
    assert metric.name == name
    for point in points:
        metrics: Metrics = point.point.metrics
        expected = OF_THE_REPORT[name](metrics)
        assert value_of(point, metric) == pytest.approx(expected, nan_ok=True)
        sample = draw([Asked(point, metric, 0)], Resampling(n_resamples=100))[Asked(point, metric, 0).key]
        assert sample.value == pytest.approx(expected, nan_ok=True)
        assert (sample.replicates is None) == isinstance(metric.part, Whole)


def test_metrics_of_time_and_labels_are_those_of_their_parts(tmp_path: Path) -> None:
    shape = SweepShape(
        policies=ON_TIME_POLICIES[:4], rates_per_s=(6.0,), n_prompts=30, n_requests=30, ttft_target=True
    )
    sweep = read_sweep(write_sweep(tmp_path / "s", shape))
    site = sites({"s": sweep})["s"]
    assert sweep.on_time is not None
    for each in site.points:
        point = SitePoint(site, each)
        found = measure_on_time(each.cells, sweep.on_time)
        run = each.cells[0].requests
        scores = sweep.labels.score[run.prompt]
        expected = {
            "on_time_share": found.attainment,
            "on_time_utility": found.on_time_utility,
            "shed_share": found.shed_share,
            "residual_s": float((run.dispatched_s - run.scheduled_s).mean()),
            "decision_s": float(run.decision_s.mean()),
            "mean_output_tokens": float(run.output_tokens[run.ok].mean()),
            "oracle_quality": float(scores.max(axis=1).mean()),
            f"label_mean:{MODELS[2]}": float(scores[:, sweep.labels.models.index(MODELS[2])].mean()),
        }
        for name, value in expected.items():
            assert value_of(point, find_metric(name, "here")) == pytest.approx(value), name


def test_every_metric_is_checked_above() -> None:
    of_time = {"on_time_share", "on_time_utility", "shed_share", "residual_s", "decision_s"}
    assert set(METRICS) <= {*OF_THE_REPORT, *of_time, "mean_output_tokens", "oracle_quality"}


def test_an_unknown_metric_is_told_all_there_are() -> None:
    with pytest.raises(
        ConfigError, match=r"f: c: metric 'speed' is none of quality, .*p99_ttft_s.*label_mean:MODEL"
    ):
        find_metric("speed", "f: c")
    with pytest.raises(ConfigError, match="is none of"):
        find_metric("model_share:", "f: c")


def test_differences_are_those_of_the_report(sweep: Sweep, points: list[SitePoint]) -> None:
    """The same draws, so the same intervals, whatever else is asked for with them."""
    paired = PairedPoints([each.point for each in points], sweep.labels, QUICK)
    one, other = points[0], points[1]
    assert streams([one, other]) == [0, 0]
    names = {"quality": "quality", "e2e_s": "mean_e2e_s", "throughput_per_s": "throughput_per_s"}
    asked = [Asked(point, METRICS[name], 0) for point in (one, other) for name in names.values()]
    samples = draw(asked, QUICK)
    for theirs, ours in names.items():
        gap = difference(*(samples[Asked(point, METRICS[ours], 0).key] for point in (one, other)))
        expected = paired.difference(one.point, other.point, theirs)
        assert (gap.value, gap.low, gap.high) == pytest.approx((expected.value, expected.low, expected.high))
    tail = draw([Asked(one, METRICS["p99_e2e_s"], 0)], QUICK)
    expected = paired.tail(one.point, "e2e_s", 0.99)
    found = single(next(iter(tail.values())))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_resamples_are_what_drawing_prompts_by_hand_gives(points: list[SitePoint]) -> None:
    """Each drawn prompt brings all its requests: built by repetition, of both seeds together."""
    point, draws = points[0], Resampling(n_resamples=100, seed=5)
    names = ("p50_e2e_s", "cost_per_request_usd", "utility", "goodput_per_s", "batch_size")
    samples = draw([Asked(point, METRICS[name], 2) for name in names], draws)
    runs = [cell.requests for cell in point.point.cells]
    ok = np.concatenate([run.ok for run in runs])
    e2e_s, cost, size = (
        np.concatenate([getattr(run, name) for run in runs]) for name in ("e2e_s", "cost_usd", "batch_size")
    )
    quality = np.concatenate([run.quality for run in runs])
    worth = np.where(ok, quality, 0.0)
    met = np.concatenate([(run.slo_met == 1) & run.ok for run in runs])
    window_s = sum(run.window_s for run in runs)
    at = np.searchsorted(point.universe, point.prompts)
    counts = np.concatenate(list(resample_counts(len(point.universe), 100, 5 + 2)))
    for row, drawn in enumerate(counts):
        rows = np.repeat(np.arange(len(at)), drawn[at])
        done = rows[ok[rows]]
        judged = rows[np.isfinite(worth[rows])]
        expected = (
            np.quantile(e2e_s[done], 0.5),
            cost[rows].sum() / len(done),
            worth[judged].mean(),
            met[rows].mean() * len(at) / window_s,
            len(rows) / (1 / size[rows]).sum(),
        )
        for name, value in zip(names, expected, strict=True):
            replicates = samples[Asked(point, METRICS[name], 2).key].replicates
            assert replicates is not None
            assert replicates[row] == pytest.approx(value), name


def test_points_of_other_workloads_are_drawn_apart(tmp_path: Path) -> None:
    """Prompts in common do not pair two points whose arrivals differ."""
    shape = SweepShape(policies=POLICIES[6:7], rates_per_s=(6.0, 12.0), n_prompts=40, n_requests=40)
    site = sites({"s": read_sweep(write_sweep(tmp_path / "s", shape))})["s"]
    low, high = (SitePoint(site, point) for point in site.points)
    assert streams([low, high, low]) == [0, 1, 0]
    quality = METRICS["quality"]
    samples = draw([Asked(low, quality, 0), Asked(high, quality, 1), Asked(high, quality, 0)], QUICK)
    one, apart, together = (
        samples[each.key].replicates
        for each in (Asked(low, quality, 0), Asked(high, quality, 1), Asked(high, quality, 0))
    )
    assert one is not None
    assert apart is not None
    assert together is not None
    assert abs(np.corrcoef(one, apart)[0, 1]) < 0.2
    assert not np.array_equal(apart, together)


def test_ratios_are_taken_within_each_resample() -> None:
    rng = np.random.default_rng(0)
    hardness = rng.normal(0, 1, 3000)
    top, bottom = (Sample(base, base + hardness * base / 20, 30) for base in (4.0, 2.0))
    found = ratio(top, bottom)
    assert found.value == 2.0
    assert found.high - found.low < 1e-9  # what moves both cancels
    assert math.isnan(ratio(top, Sample(0.0, np.zeros(3000), 30)).value)
    assert ratio(top, Sample(2.0, None, reason="a file")).status == "not_estimable"
