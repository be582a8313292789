"""Workloads are paired across policies and rates, and driven by the seed alone."""

from __future__ import annotations

import numpy as np
import pytest

from rbx.errors import ConfigError
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
