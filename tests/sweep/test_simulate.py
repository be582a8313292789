"""A simulated cell: the same decisions as a plain reading, conserved, causal and repeatable."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.config.policy import RouteBalancePolicy, RoutedPolicy, SinglePolicy
from rbx.sweep.context import SweepContext
from rbx.sweep.simulate import Outcome, SimulatedCell
from rbx.sweep.workload import Arriving, draw_workload
from tests.sweep.plain_cell import assignments
from tests.sweep.scenes import small_context

EVEN = RouteBalancePolicy(weights=(1 / 3, 1 / 3, 1 / 3))
SHORTEST = RoutedPolicy(router="passthrough", dispatch="shortest-queue")


def run(
    context: SweepContext,
    policy: SinglePolicy = EVEN,
    *,
    rate_per_s: float = 20.0,
    seed: int = 0,
) -> tuple[Arriving, Outcome]:
    workload = context.experiment.workload
    arriving = draw_workload(workload, context.prompts.input_tokens, rate_per_s, seed)
    return arriving, SimulatedCell(context, policy, arriving, seed).run()


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    rate_per_s=st.sampled_from([2.0, 15.0, 40.0, 120.0]),
    seats=st.integers(1, 12),
    quality=st.sampled_from([0.1, 0.5, 0.9]),
    budget=st.booleans(),
)
def test_decisions_equal_the_plain_reading(
    seed: int, rate_per_s: float, seats: int, quality: float, budget: bool
) -> None:
    workload = {"n_requests": 120}
    if budget:
        workload["budget"] = {"share": 0.5, "low_usd": 1e-6, "high_usd": 2e-4}  # type: ignore[assignment]
    context = small_context(seed, seats=seats, workload=workload)
    weights = (quality, (1 - quality) / 2, (1 - quality) / 2)
    arriving, outcome = run(context, RouteBalancePolicy(weights=weights), rate_per_s=rate_per_s, seed=seed)
    plain = assignments(context, arriving, weights)
    assert len(plain) == 120
    assert outcome.instance.tolist() == [plain[r][0] for r in range(120)]
    assert outcome.max_tokens.tolist() == [plain[r][1] for r in range(120)]
    assert outcome.decided_s.tolist() == pytest.approx([plain[r][2] for r in range(120)], rel=1e-12)


@pytest.mark.parametrize("policy", [EVEN, SHORTEST], ids=["routebalance", "passthrough"])
def test_every_request_runs_through_its_stages_in_order(policy: SinglePolicy) -> None:
    arriving, outcome = run(small_context(), policy, rate_per_s=60.0)
    assert len(outcome.instance) == 300
    assert (outcome.instance >= 0).all()
    stages = [arriving.scheduled_s, outcome.decided_s, outcome.first_token_s, outcome.done_s]
    for before, after in itertools.pairwise(stages):
        assert (before <= after).all()
    assert (outcome.output_tokens >= 1).all()
    assert outcome.busy_s.sum() > 0


def test_the_same_seed_gives_the_same_cell_and_zero_is_a_seed() -> None:
    (_, first), (_, again), (_, other) = (run(small_context(), seed=seed) for seed in (0, 0, 1))
    assert first.done_s.tolist() == again.done_s.tolist()
    assert first.done_s.tolist() != other.done_s.tolist()


def test_an_answer_is_cut_at_its_cap() -> None:
    context = small_context(workload={"max_output_tokens": 50})
    _, outcome = run(context)
    assert outcome.output_tokens.max() == 50
    assert (outcome.wanted_tokens > 50).any()


def test_stale_telemetry_is_older_but_the_ledger_keeps_the_burst_spread() -> None:
    fresh = small_context()
    stale = small_context(scheduler={"telemetry": {"period_s": 5.0}})
    _, now = run(fresh, SHORTEST, rate_per_s=40.0)
    _, old = run(stale, SHORTEST, rate_per_s=40.0)
    assert now.telemetry_age_s.max() == 0.0
    assert 0.5 < old.telemetry_age_s.max() <= 5.0
    counts = np.bincount(old.instance, minlength=5)
    assert counts.max() / counts.mean() <= 1.3


def test_a_prompt_nobody_can_hold_is_an_error_not_a_crash() -> None:
    context = small_context()
    context.prompts.input_tokens[3] = 5000
    arriving, outcome = run(context)
    unplaced = outcome.instance < 0
    assert unplaced.tolist() == (arriving.prompt == 3).tolist()
    assert unplaced.any()
    assert np.isnan(outcome.done_s[unplaced]).all()


def test_unbatched_passthrough_does_not_wait_for_a_window() -> None:
    _, batched = run(small_context(), SHORTEST, rate_per_s=5.0)
    alone = SHORTEST.model_copy(update={"batched": False})
    _, unbatched = run(small_context(), alone, rate_per_s=5.0)
    assert batched.batch_wait_s.mean() > 0.03
    assert unbatched.batch_wait_s.max() < 0.01
