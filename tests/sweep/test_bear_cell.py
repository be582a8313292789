"""BEAR and BEA in whole cells: what is predicted comes true, and what is taken away shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.config.policy import BearPolicy, RouteBalancePolicy, SinglePolicy
from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.simulator import EngineSim
from rbx.engine.snapshot_export import export_snapshot
from rbx.errors import EngineError
from rbx.policy.base import BY_HOPELESS_RULE, SHED
from rbx.policy.pool_state import PoolState
from rbx.policy.ttft.bea import BeaTtft
from rbx.sweep.simulate import Outcome, SimulatedCell
from rbx.sweep.workload import Arriving, draw_workload
from tests.sweep.scenes import small_context

TARGET: dict[str, Any] = {"slo": {"ttft_target": {}}}
NETWORK_S = 0.001


def run(
    policy: SinglePolicy, *, rate_per_s: float = 20.0, seed: int = 0, seats: int = 8, **changes: Any
) -> tuple[Arriving, Outcome]:
    changes["workload"] = {**TARGET, **changes.get("workload", {})}
    context = small_context(seed, seats=seats, **changes)
    arriving = draw_workload(context.experiment.workload, context.prompts.input_tokens, rate_per_s, seed)
    return arriving, SimulatedCell(context, policy, arriving, seed).run()


def undisturbed(outcome: Outcome) -> np.ndarray:
    """Requests on whose instance nobody else arrived between them and their first token."""
    enters_s = outcome.dispatched_s + NETWORK_S
    alone = np.zeros(len(enters_s), dtype=bool)
    for k in range(len(enters_s)):
        same = (outcome.instance == outcome.instance[k]) & (np.arange(len(enters_s)) != k)
        later = (enters_s > enters_s[k]) & (enters_s <= outcome.first_token_s[k] - NETWORK_S)
        alone[k] = not (same & (later | (enters_s == enters_s[k]))).any()
    return alone


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    rate_per_s=st.sampled_from([5.0, 20.0, 60.0]),
    seats=st.integers(2, 12),
    policy=st.sampled_from(
        [
            BearPolicy(true_lengths=True),
            BearPolicy(true_lengths=True, rule="soft", delta_per_s=2.0),
            BearPolicy(true_lengths=True, batched=True),
        ]
    ),
)
def test_with_true_lengths_the_predicted_ttft_comes_true_unless_somebody_joins(
    seed: int, rate_per_s: float, seats: int, policy: BearPolicy
) -> None:
    arriving, outcome = run(policy, rate_per_s=rate_per_s, seed=seed, seats=seats)
    # The replay gives up after a minute; what it then says is a lower bound.
    alone = undisturbed(outcome) & (outcome.predicted_ttft_s < 60.0)
    assert alone.sum() >= 5
    measured_s = outcome.first_token_s - arriving.scheduled_s
    assert outcome.predicted_ttft_s[alone] == pytest.approx(measured_s[alone], rel=1e-9, abs=1e-9)


def test_predicted_lengths_miss_where_departures_matter() -> None:
    arriving, outcome = run(BearPolicy(), rate_per_s=60.0, seats=2)
    alone = undisturbed(outcome)
    measured_s = outcome.first_token_s - arriving.scheduled_s
    assert np.abs(outcome.predicted_ttft_s[alone] - measured_s[alone]).max() > 0.01


def test_routebalance_with_bea_predicts_its_ttft_too() -> None:
    policy = RouteBalancePolicy(weights=(0.4, 0.4, 0.2), latency="bea")
    arriving, outcome = run(policy, rate_per_s=5.0)
    measured_s = outcome.first_token_s - arriving.scheduled_s
    close = np.abs(outcome.predicted_ttft_s - measured_s) < 1e-9
    assert close.mean() > 0.5
    assert (outcome.predicted_latency_s > 0).all()


def test_the_hard_rule_keeps_more_targets_than_the_router_that_knows_no_latency() -> None:
    def on_time(policy: BearPolicy) -> float:
        arriving, outcome = run(policy, rate_per_s=7.0, workload={"n_requests": 600})
        return float(np.mean(outcome.first_token_s - arriving.scheduled_s <= arriving.ttft_target_s))

    agnostic = on_time(BearPolicy(rule="soft", ttft=None))
    aware = on_time(BearPolicy())
    shuffled = on_time(BearPolicy(shuffled=True))
    assert aware > agnostic + 0.1
    assert aware > shuffled + 0.1


@pytest.mark.parametrize("ttft", ["prefill-throughput", "lps", "lps-engine"])
def test_every_estimator_runs_a_cell_to_its_end(ttft: Any) -> None:
    _, outcome = run(BearPolicy(ttft=ttft), rate_per_s=30.0)
    assert np.isfinite(outcome.done_s).all()
    assert (outcome.predicted_ttft_s > 0).all()


def test_hopeless_requests_are_shed_or_sent_on_as_asked() -> None:
    overloaded: dict[str, Any] = {"rate_per_s": 300.0, "seats": 2, "workload": {"n_requests": 400}}
    _, shed = run(BearPolicy(fallback="shed"), **overloaded)
    _, kept = run(BearPolicy(), **overloaded)
    turned_away = shed.mode == SHED
    assert turned_away.any()
    assert (shed.instance[turned_away] == -1).all()
    assert (shed.on_time[turned_away] == 0).all()
    assert (shed.instance[~turned_away] >= 0).all()
    assert (kept.mode == BY_HOPELESS_RULE).any()
    assert (kept.instance >= 0).all()
    assert ((kept.on_time == 0) == (kept.mode == BY_HOPELESS_RULE)).all()


def test_without_the_ledger_a_burst_under_old_snapshots_herds() -> None:
    def on_one_instance(*, ledger: bool) -> float:
        scheduler = {"telemetry": {"delay_s": 3.0}, "ledger": ledger}
        policy = BearPolicy(rule="soft", delta_per_s=100.0)
        _, outcome = run(policy, rate_per_s=10.0, scheduler=scheduler)
        longest = run_lengths(outcome.instance)
        return float(longest.mean())

    assert on_one_instance(ledger=False) > 1.5 * on_one_instance(ledger=True)


def run_lengths(instance: np.ndarray) -> np.ndarray:
    """How many requests in a row went to the same instance."""
    edges = np.flatnonzero(np.diff(instance)) + 1
    return np.diff(np.concatenate([[0], edges, [len(instance)]]))


def test_wrong_step_times_and_ignored_batches_change_the_prediction() -> None:
    _, right = run(BearPolicy(), rate_per_s=20.0)
    _, slow = run(BearPolicy(step_time_scale=2.0), rate_per_s=20.0)
    _, landed = run(BearPolicy(in_flight=False), rate_per_s=20.0)
    first = 0  # an idle pool: the same choice for all three
    assert slow.predicted_ttft_s[first] > 1.3 * right.predicted_ttft_s[first]
    measured = right.first_token_s
    assert landed.predicted_ttft_s.mean() < measured.mean()


class WholeBea(BeaTtft):
    """Replays to the end whatever it is asked for."""

    def ttft_s(
        self, input_tokens: int, candidates: np.ndarray, state: PoolState, within_s: float = np.inf
    ) -> np.ndarray:
        return super().ttft_s(input_tokens, candidates, state)


@pytest.mark.parametrize("rate_per_s", [8.0, 20.0, 80.0])
def test_giving_up_at_the_target_changes_no_decision(
    rate_per_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, short = run(BearPolicy(), rate_per_s=rate_per_s, seats=3)
    monkeypatch.setattr("rbx.policy.ttft.build.BeaTtft", WholeBea)
    _, whole = run(BearPolicy(), rate_per_s=rate_per_s, seats=3)
    assert short.instance.tolist() == whole.instance.tolist()
    assert short.predicted_ttft_s.tolist() == whole.predicted_ttft_s.tolist()
    assert short.on_time.tolist() == whole.on_time.tolist()
    assert (short.on_time < 5).any()  # somebody is always too late, or nothing is tried here


def test_a_target_beyond_the_replays_horizon_is_no_excuse_to_call_everybody_on_time() -> None:
    overloaded: dict[str, Any] = {"rate_per_s": 20.0, "seats": 1, "workload": {"slo": {"ttft_s": 90.0}}}
    arriving, shed = run(BearPolicy(fallback="shed", true_lengths=True), **overloaded)
    assert (shed.mode == SHED).any()
    kept = shed.mode != SHED
    late = shed.first_token_s[kept] - arriving.scheduled_s[kept] > 90.0
    assert late.mean() < 0.1  # company that came later, not blindness


@pytest.mark.parametrize("fallback", ["shed", "min-ttft"])
def test_a_cell_in_which_nobody_can_be_in_time_runs_to_its_end(fallback: Any) -> None:
    _, outcome = run(BearPolicy(fallback=fallback), workload={"slo": {"ttft_s": 1e-6}, "n_requests": 50})
    assert (outcome.on_time == 0).all()
    assert outcome.infeasible == 50
    placed = outcome.instance >= 0
    assert placed.all() if fallback == "min-ttft" else not placed.any()
    assert np.isfinite(outcome.done_s[placed]).all()
    assert np.isnan(outcome.done_s[~placed]).all()


def test_prompts_that_fit_nowhere_are_no_end_of_the_cell() -> None:
    context = small_context(workload={"n_requests": 20})
    prompts = replace(context.prompts, input_tokens=np.full(80, 5000))
    context = replace(context, prompts=prompts)
    arriving = draw_workload(context.experiment.workload, prompts.input_tokens, 5.0, 0)
    outcome = SimulatedCell(context, BearPolicy(rule="soft"), arriving, 0).run()
    assert (outcome.instance == -1).all()


def test_snapshots_show_the_cap_that_was_sent_and_not_how_the_answer_will_end() -> None:
    tier = small_context().pool.tiers[0]
    engine = EngineSim([tier], 3)
    # Both sent with a cap of 64: one stops by itself a token before it, one is ended by it.
    engine.submit_many([0, 0], [0.0, 0.0], [50, 50], [63, 64], [40, 40], [False, True], [64, 64])
    engine.submit(0, 0.0, 50, 30, 40)
    engine.advance(0.3)
    rows = export_snapshot(engine, 0, InstanceProfile.of(tier)).requests
    assert rows[:, snap.CAP].tolist() == [64, 64, tier.limits.max_model_len - 50]
    assert (rows[0] == rows[1]).all()


@pytest.mark.parametrize(("output", "by_length", "cap"), [(65, False, 64), (63, True, 64)])
def test_a_cap_that_the_answer_contradicts_is_refused(output: int, by_length: bool, cap: int) -> None:
    engine = EngineSim([small_context().pool.tiers[0]], 1)
    with pytest.raises(EngineError, match="cap_tokens 64"):
        engine.submit_many([0], [0.0], [50], [output], [40], [by_length], [cap])
