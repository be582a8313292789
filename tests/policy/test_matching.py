"""Batches placed as a whole: scores beside the greedy kernel's, the best matching beside brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rbx.config.policy import RouteBalancePolicy
from rbx.policy.matching import batch_scores, match_batch, matched
from rbx.policy.objective import assign_batch
from rbx.policy.pool_state import PoolState
from rbx.sweep.simulate import request_table
from rbx.sweep.workload import draw_workload
from tests.sweep.scenes import small_context
from tests.sweep.test_simulate import run


def best_by_brute_force(score: np.ndarray) -> float:
    """The largest total over all placements within the bound, everybody placed who can be."""
    n, n_instances = score.shape
    for each in range(-(-n // n_instances), n + 1):
        totals = [
            sum(score[at, i] for at, i in enumerate(choice))
            for choice in itertools.product(range(n_instances), repeat=n)
            if np.bincount(choice, minlength=n_instances).max() <= each
        ]
        if (best := max(totals)) > -np.inf:
            return float(best)
    raise AssertionError("nobody can be placed")


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31), n=st.integers(1, 5), n_instances=st.integers(1, 4), closed=st.floats(0, 0.6)
)
def test_the_matching_is_the_best_of_all(seed: int, n: int, n_instances: int, closed: float) -> None:
    rng = np.random.default_rng(seed)
    score = rng.random((n, n_instances)).round(2)
    score[rng.random(score.shape) < closed] = -np.inf
    chosen = matched(score, rng.permutation(n_instances))
    nowhere = ~np.isfinite(score).any(axis=1)
    assert ((chosen == -1) == nowhere).all()
    offered = score[~nowhere][:, np.isfinite(score).any(axis=0)]
    if not len(offered):
        return
    total = float(score[np.flatnonzero(~nowhere), chosen[~nowhere]].sum())
    assert total == pytest.approx(best_by_brute_force(offered))


@pytest.mark.parametrize("minmax", [False, True])
@pytest.mark.parametrize("budget", [False, True])
def test_a_request_alone_goes_where_the_greedy_kernel_sends_it(minmax: bool, budget: bool) -> None:
    workload = {"budget": {"share": 0.6, "low_usd": 1e-6, "high_usd": 6e-5}} if budget else {}
    context = small_context(workload=workload)
    arriving = draw_workload(context.experiment.workload, context.prompts.input_tokens, 20.0, 0)
    weights = np.array([0.5, 0.3, 0.2])
    table = request_table(context, arriving, RouteBalancePolicy(weights=(0.5, 0.3, 0.2)))
    tpot_s, none = np.array([0.011, 0.012, 0.013, 0.035, 0.036]), np.zeros(0)
    seen, poor = set(), 0
    for row in range(80):
        greedy_state, state = PoolState.idle(5), PoolState.idle(5)
        for held in (greedy_state, state):
            load = np.random.default_rng(row)
            held.running[:], held.waiting[:] = load.integers(0, 9, 5), load.integers(0, 3, 5)
            held.pending_decode_tokens[:] = load.uniform(0.0, 2000.0, 5)
        args = (np.array([row]), table, context.shape, tpot_s, none, weights, minmax)
        greedy, alone = assign_batch(*args, False, row, greedy_state), match_batch(*args, row, state)
        cost = table.input_tokens[row] * context.shape.price_in_usd[greedy[0][0]]
        if cost + greedy[2][0] * context.shape.price_out_usd[greedy[0][0]] > table.budget_usd[row]:
            # Among the cheapest of those beyond its means the greedy kernel goes by queues alone.
            poor += 1
            assert context.shape.model[alone[0][0]] == context.shape.model[greedy[0][0]]
            continue
        seen.add(int(alone[0][0]))
        for theirs, ours in zip(greedy, alone, strict=True):
            assert ours.tolist() == pytest.approx(theirs.tolist())
        assert state.pending_decode_tokens == pytest.approx(greedy_state.pending_decode_tokens)
    assert len(seen) > 2
    assert (poor > 0) == budget


def test_scores_are_infinitely_low_where_a_prompt_does_not_fit() -> None:
    context = small_context()
    arriving = draw_workload(context.experiment.workload, context.prompts.input_tokens, 20.0, 0)
    table = request_table(context, arriving, RouteBalancePolicy(weights=(1.0, 0.0, 0.0)))
    state = PoolState.idle(5)
    state.alive[:3] = False
    scores = batch_scores(
        np.arange(4), table, context.shape, np.full(5, 0.01), np.zeros(0), np.ones(3), False, state
    )
    assert np.isneginf(scores.score[:, :3]).all()
    assert np.isfinite(scores.score[:, 3:]).all()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_of_equal_instances_those_of_the_shortest_queue_and_then_the_least_used_go_first(n: int) -> None:
    chosen = matched(np.ones((n, 5)), np.array([3, 0, 4, 1, 2]))
    assert set(chosen.tolist()) == set([3, 0, 4][:n])
    context = small_context()
    arriving = draw_workload(context.experiment.workload, context.prompts.input_tokens, 20.0, 0)
    table = request_table(context, arriving, RouteBalancePolicy(weights=(0.0, 0.0, 1.0)))
    state = PoolState.idle(5)
    state.running[:], state.last_used[:] = (2, 1, 1, 0, 0), (0, 5, 4, 2, 3)
    args = (np.arange(n), table, context.shape, np.full(5, 0.01), np.zeros(0), np.array([0.0, 0.0, 1.0]))
    # The small model's three cost the same, and less than the two of the large one.
    instance, *_ = match_batch(*args, False, 9, state)
    assert set(instance.tolist()) == set([2, 1, 0][:n])


def test_without_a_weight_on_latency_replicas_share_what_comes_one_by_one() -> None:
    shares = []
    for placement in ("greedy", "matching"):
        policy = RouteBalancePolicy(weights=(0.5, 0.0, 0.5), placement=placement)
        _, outcome = run(small_context(), policy, rate_per_s=3.0)
        shares.append(np.bincount(outcome.instance, minlength=5)[:3] / 300)
    greedy, matching = shares
    assert matching == pytest.approx(greedy, abs=0.05)


def test_a_cell_by_matching_spreads_a_batch_and_serves_everybody() -> None:
    fixed = {"batching": {"mode": "fixed", "max_size": 5, "window_s": 1.0}}
    policy = RouteBalancePolicy(weights=(0.8, 0.1, 0.1), placement="matching")
    _, outcome = run(small_context(scheduler=fixed), policy, rate_per_s=40.0)
    assert policy.label == "rb q0.80 l0.10 c0.10 matching"
    assert (outcome.instance >= 0).all()
    full = [np.flatnonzero(outcome.batch_id == b) for b in np.unique(outcome.batch_id)]
    full = [rows for rows in full if len(rows) == 5]
    assert len(full) > 20
    assert all(len(set(outcome.instance[rows].tolist())) == 5 for rows in full)


@pytest.mark.parametrize(
    "other", [{"latency": "bea"}, {"tie_break": "latency"}, {"filter": "budget"}, {"filter": "none"}]
)
def test_what_it_does_not_know_is_refused(other: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="placement"):
        RouteBalancePolicy(weights=(1.0, 0.0, 0.0), placement="matching", **other)
