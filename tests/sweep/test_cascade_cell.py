"""Cells of a cascade: whom each request asks, when its answer is shown, and what all of it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rbx.config.dispatch import DispatchConfig, EwmaLatency, PredictedLatency
from rbx.config.policy import RoutedPolicy
from rbx.errors import ConfigError
from rbx.heads.encoder import encoder_cost
from rbx.heads.routers.cascade.chain import Chain
from rbx.report.conservation import faults
from rbx.sweep.cell import cell_summary
from rbx.sweep.context import SweepContext
from rbx.sweep.scoring import simulated_records
from rbx.sweep.simulate import Outcome, SimulatedCell
from rbx.sweep.store import CellSpec, CellSummary
from rbx.sweep.workload import Arriving, draw_workload
from tests.sweep.scenes import small_context

CHAIN = Chain((0, 1), (0.6,), 0.5, 1e-5)
FIRST_S = encoder_cost("static").encode_s_per_request
PER_TOKEN_S, READ = encoder_cost("static").encode_s_per_token, encoder_cost("static").max_tokens
Floats = NDArray[np.float64]


def policy(dispatch: DispatchConfig = "shortest-queue", *, batched: bool = True) -> RoutedPolicy:
    return RoutedPolicy(router="cascade", dispatch=dispatch, mean_budget_usd=1e-4, batched=batched)


def context_of(chain: Chain = CHAIN, asked: RoutedPolicy | None = None, **changes: Any) -> SweepContext:
    workload = {"n_requests": 120, "max_output_tokens": 500, **changes.pop("workload", {})}
    context = small_context(0, workload=workload, **changes)
    scores = np.random.default_rng(3).random(context.prompts.quality.shape).round(2)
    label = (asked or policy()).router_label
    prompts = replace(context.prompts, router_score={label: scores})
    return replace(context, prompts=prompts, chains={label: chain})


def play(
    context: SweepContext, asked: RoutedPolicy, rate_per_s: float = 12.0
) -> tuple[Arriving, SimulatedCell, Outcome]:
    arriving = draw_workload(context.experiment.workload, context.prompts.input_tokens, rate_per_s, 0)
    cell = SimulatedCell(context, asked, arriving, 0)
    return arriving, cell, cell.run()


def answer_scores(context: SweepContext, arriving: Arriving) -> Floats:
    return context.prompts.router_score[policy().router_label][arriving.prompt]


@pytest.mark.parametrize(
    "dispatch", ["round-robin", "shortest-queue", EwmaLatency(), PredictedLatency(retrain_every=20, trees=5)]
)
@pytest.mark.parametrize("period_s", [0.0, 0.25])
def test_the_answers_decide_who_is_asked_and_every_one_of_them_is_paid(
    dispatch: DispatchConfig, period_s: float
) -> None:
    context = context_of(scheduler={"telemetry": {"period_s": period_s, "delay_s": period_s / 5}})
    arriving, _, outcome = play(context, policy(dispatch))
    scores, shape = answer_scores(context, arriving), context.shape
    asked = CHAIN.asked(scores)
    assert 20 < asked[:, 1].sum() < 100
    assert (shape.model[outcome.instance] == CHAIN.last_asked(scores)).all()
    assert outcome.models_asked is not None
    assert outcome.models_asked.tolist() == asked.sum(axis=1).tolist()
    prices = np.array([0.06, 0.40]) / 1e6
    tokens = context.prompts.input_tokens[arriving.prompt][:, None] + np.minimum(
        context.prompts.output_tokens[arriving.prompt], 500
    )
    records = simulated_records("c", context, arriving, outcome)
    np.testing.assert_allclose(
        records["cost_usd"].to_numpy(), (asked * tokens * prices).sum(axis=1), rtol=1e-9
    )
    assert records["models_asked"].to_pylist() == asked.sum(axis=1).tolist()
    assert records["output_tokens"].to_pylist() == outcome.output_tokens.tolist()


def test_a_cell_adds_up_and_is_the_same_again() -> None:
    context = context_of()
    arriving, _, outcome = play(context, policy())
    records = simulated_records("c", context, arriving, outcome)
    n = len(arriving.prompt)
    summary = CellSummary(**cell_summary(context, _spec(n), outcome, ok=n), records_sha256="0" * 64)
    assert faults(records, summary, _spec(n), has_targets=False, has_ttft_targets=False) == []
    again = play(context, policy())[2]
    assert simulated_records("c", context, arriving, again).equals(records)


def _spec(n: int) -> CellSpec:
    return CellSpec(
        cell_id="c",
        label=policy().label,
        policy=policy().model_dump(mode="json"),
        rate_per_s=12.0,
        load=None,
        seed=0,
        workload_hash="h",
        n_requests=n,
    )


@pytest.mark.parametrize("batched", [True, False])
def test_each_attempt_follows_from_the_one_before_through_one_scorer(batched: bool) -> None:
    """Attempts are replayed from the decisions; the engine gives one slot a dispatch, in their order."""
    asked = policy(batched=batched)
    context = context_of(asked=asked)
    arriving, cell, outcome = play(context, asked)
    engine, network_s = cell._engine, context.experiment.scheduler.network_s
    attempts = [
        (int(request), int(context.shape.model[instance]), decision.batch.closed_s)
        for decision in cell._decisions
        for request, instance in zip(decision.requests, decision.assignment.instance, strict=True)
    ]
    assert len(attempts) == len(engine.done_s)
    slots = {(request, model): slot for slot, (request, model, _) in enumerate(attempts)}
    closed_s = {(request, model): at_s for request, model, at_s in attempts}
    scores = answer_scores(context, arriving)
    free_s, going_on = 0.0, 0
    for done_s, request in sorted((engine.done_s[slot], r) for (r, m), slot in slots.items() if m == 0):
        output = min(int(context.prompts.output_tokens[arriving.prompt[request], 0]), 500)
        free_s = max(done_s + network_s, free_s) + FIRST_S + PER_TOKEN_S * min(output, READ)
        if scores[request, 0] >= 0.6:
            assert (
                outcome.first_token_s[request] == outcome.done_s[request] == pytest.approx(free_s, abs=1e-12)
            )
            continue
        going_on += 1
        assert closed_s[request, 1] >= free_s - 1e-12
        slot = slots[request, 1]
        assert outcome.done_s[request] == engine.done_s[slot] + network_s
        assert outcome.first_token_s[request] == engine.first_token_s[slot] + network_s
        assert outcome.decided_s[request] >= closed_s[request, 1]
        if not batched:
            earlier_s = max(d.decided_s for d in cell._decisions if d.decided_s < outcome.decided_s[request])
            assert closed_s[request, 1] == pytest.approx(max(free_s, earlier_s), abs=1e-12)
    assert going_on > 20


def test_a_first_attempt_is_placed_as_if_no_other_followed() -> None:
    """Where every first answer is good enough, the engine sees what it sees under a plain router."""
    context = context_of(Chain((0, 1), (0.0,), 0.5, 1e-5))
    _, cell, outcome = play(context, policy())
    plain = RoutedPolicy(router="linear", dispatch="shortest-queue")
    first = np.tile([1.0, 0.0], (len(context.prompts), 1))
    prompts = replace(context.prompts, router_score={plain.router_label: first})
    _, other, single = play(replace(context, prompts=prompts), plain)
    assert outcome.instance.tolist() == single.instance.tolist()
    np.testing.assert_array_equal(cell._engine.done_s, other._engine.done_s)
    np.testing.assert_array_equal(outcome.batch_wait_s, single.batch_wait_s)
    assert (outcome.done_s > single.done_s).all()


def test_a_cut_answer_goes_on_and_a_spent_budget_ends_the_chain() -> None:
    good = Chain((0, 1), (0.0,), 0.5, 1e-5)
    context = context_of(good, workload={"max_output_tokens": 200})
    arriving, _, outcome = play(context, policy())
    cut = context.prompts.output_tokens[arriving.prompt][:, 0] > 200
    assert outcome.models_asked is not None
    assert ((outcome.models_asked == 2) == cut).all()
    poor = {"share": 1.0, "low_usd": 2e-5, "high_usd": 4e-5}
    context = context_of(Chain((0, 1), (1.1,), 0.5, 1e-5), workload={"budget": poor})
    arriving, _, outcome = play(context, policy())
    records = simulated_records("c", context, arriving, outcome)
    assert outcome.models_asked is not None
    assert set(outcome.models_asked.tolist()) == {1, 2}
    spent, budget = records["cost_usd"].to_numpy(), records["budget_usd"].to_numpy()
    assert (spent <= budget * (1 + 1e-9) + 0.40e-6).all()


def test_telemetry_that_is_late_without_scrapes_is_refused() -> None:
    context = context_of(scheduler={"telemetry": {"delay_s": 0.1}})
    with pytest.raises(ConfigError, match="period_s"):
        play(context, policy())
