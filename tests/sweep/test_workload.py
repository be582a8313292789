"""Workloads are paired across policies and rates, and driven by the seed alone."""

from __future__ import annotations

import numpy as np
import pytest

from rbx.errors import ConfigError
from rbx.sweep.capacity import Capacity
from rbx.sweep.plan import planned_rates
from rbx.sweep.workload import draw_workload
from tests.sweep.scenes import experiment

TOKENS = np.arange(1, 81) * 20


def test_prompts_come_in_passes_whose_counts_differ_by_at_most_one() -> None:
    arriving = draw_workload(experiment(workload={"n_requests": 190}).workload, TOKENS, 10.0, 0)
    counts = np.bincount(arriving.prompt, minlength=80)
    assert counts.sum() == 190
    assert counts.max() - counts.min() == 1
    assert sorted(arriving.prompt[:80].tolist()) == list(range(80))


def test_rates_share_the_order_of_prompts() -> None:
    workload = experiment().workload
    slow, fast = (draw_workload(workload, TOKENS, rate, 3) for rate in (1.0, 50.0))
    assert slow.prompt.tolist() == fast.prompt.tolist()
    assert slow.hash != fast.hash


def test_default_is_one_pass() -> None:
    workload = experiment(workload={"n_requests": None}).workload
    assert len(draw_workload(workload, TOKENS, 10.0, 0).prompt) == 80


def test_budgets_reach_the_share_asked_for_and_leave_the_rest_without() -> None:
    budget = {"share": 0.3, "low_usd": 1e-5, "high_usd": 2e-5}
    workload = experiment(workload={"n_requests": 4000, "budget": budget}).workload
    arriving = draw_workload(workload, TOKENS, 10.0, 0)
    finite = np.isfinite(arriving.budget_usd)
    assert abs(finite.mean() - 0.3) < 0.03
    assert arriving.budget_usd[finite].min() >= 1e-5
    assert arriving.budget_usd[finite].max() <= 2e-5
    without = draw_workload(experiment(workload={"n_requests": 4000}).workload, TOKENS, 10.0, 0)
    assert arriving.prompt.tolist() == without.prompt.tolist()
    assert arriving.scheduled_s.tolist() == without.scheduled_s.tolist()


@pytest.mark.parametrize("size", [{"n_requests": 2_000_000_000}, {"n_requests": None, "duration_s": 1e15}])
def test_a_workload_beyond_memory_is_refused_before_it_is_drawn(size: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="10,000,000"):
        draw_workload(experiment(workload=size).workload, TOKENS, 10.0, 0)


def test_a_duration_gives_as_many_requests_as_fill_it() -> None:
    workload = experiment(workload={"n_requests": None, "duration_s": 30.0}).workload
    assert len(draw_workload(workload, TOKENS, 12.0, 0).prompt) == 360


def test_targets_follow_the_prompt_within_their_bounds_and_repeat_with_the_seed() -> None:
    workload = experiment(workload={"n_requests": 4000, "slo": {"ttft_target": {}}}).workload
    tokens = np.array([1, 1_000, 7_519, 20_000, 200_000])
    arriving, again = (draw_workload(workload, tokens, 10.0, 7) for _ in range(2))
    assert arriving.ttft_target_s.tolist() == again.ttft_target_s.tolist()
    for prompt, (low, high) in enumerate([(0.1519, 0.1582), (0.1862, 0.1938), (0.4098, 0.4266)]):
        mine = arriving.ttft_target_s[arriving.prompt == prompt]
        assert low <= mine.min() < mine.max() <= high  # (155 + 0.035·tokens) ms, ±2 %
    assert (arriving.ttft_target_s[arriving.prompt == 4] == 1.12).all()


def test_targets_leave_the_rest_of_a_workload_alone_but_change_its_hash() -> None:
    plain = draw_workload(experiment().workload, TOKENS, 10.0, 0)
    one = draw_workload(experiment(workload={"slo": {"ttft_s": 0.5}}).workload, TOKENS, 10.0, 0)
    assert np.isinf(plain.ttft_target_s).all()
    assert (one.ttft_target_s == 0.5).all()
    assert plain.scheduled_s.tolist() == one.scheduled_s.tolist()
    assert plain.hash != one.hash


def test_rates_and_loads_meet_in_one_sweep_and_every_rate_then_knows_its_load() -> None:
    workload = experiment(workload={"rates_per_s": [5.0, 16.0], "loads": [0.8, 0.1]}).workload
    assert planned_rates(workload, Capacity(20.0, "p", "h")) == [(2.0, 0.1), (5.0, 0.25), (16.0, 0.8)]
    assert planned_rates(experiment(workload={"rates_per_s": [5.0]}).workload, None) == [(5.0, None)]
