"""The reference that sees the labels: against brute force, and nowhere near a policy that may not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.config.experiment import Experiment
from rbx.config.policy import RoutedPolicy
from rbx.errors import ConfigError
from rbx.policy.request_table import RequestTable
from rbx.sweep.oracle import oracle_scores
from rbx.sweep.simulate import SimulatedCell, request_table
from rbx.sweep.workload import draw_workload
from tests.sweep.scenes import MODELS, experiment, small_context, small_pool

PRICE = {"small": 0.06e-6, "large": 0.40e-6}


@given(st.integers(0, 10**6), st.sampled_from([0.0, 200.0, 5e4]), st.sampled_from([50, 200, 4096]))
def test_it_takes_the_best_label_less_the_true_cost_and_of_equals_the_cheapest(
    seed: int, weight: float, cap: int
) -> None:
    prompts = small_context(seed).prompts
    scores = oracle_scores(prompts, small_pool(), cap, weight)
    assert scores.shape == prompts.score.shape
    assert np.sort(scores, axis=1).tolist() == [[1.0, 2.0]] * len(prompts)
    for row in range(len(prompts)):

        def worth(m: int, row: int = row) -> tuple[float, float]:
            output = min(int(prompts.output_tokens[row, m]), cap)
            cost_usd = (int(prompts.input_tokens[row]) + output) * PRICE[MODELS[m]]
            label = float(prompts.score[row, m])
            known = not math.isnan(label) and prompts.output_tokens[row, m] <= cap
            return (-(label - weight * cost_usd) if known else math.inf, cost_usd)

        assert int(scores[row].argmax()) == min(range(2), key=worth)


def test_an_answer_or_a_prompt_that_the_context_is_too_short_for_is_nobodys_choice() -> None:
    prompts = replace(
        small_context().prompts,
        input_tokens=np.full(80, 100),
        output_tokens=np.full((80, 2), 50),
        score=np.tile([1.0, 0.0], (80, 1)),
    )
    for context, choice in ((150, "small"), (149, "large"), (100, "large")):
        tiers = [
            tier.model_copy(update={"limits": tier.limits.model_copy(update={"max_model_len": length})})
            for tier, length in zip(small_pool().tiers, (context, 2048), strict=True)
        ]
        pool = small_pool().model_copy(update={"tiers": tuple(tiers)})
        for score in (prompts.score, np.full((80, 2), np.nan)):
            chosen = oracle_scores(replace(prompts, score=score), pool, 4096, 0.0).argmax(axis=1)
            wanted = "small" if np.isnan(score).all() and context > 100 else choice
            assert {MODELS[m] for m in chosen} == {wanted}


def oracle(**fields: object) -> RoutedPolicy:
    return RoutedPolicy.model_validate({"router": "oracle", "dispatch": "shortest-queue", **fields})


def test_its_cells_reach_the_best_label_of_every_prompt_and_say_what_they_are() -> None:
    context = small_context(3, workload={"max_output_tokens": 4096})
    policy = oracle()
    scores = oracle_scores(context.prompts, context.pool, 4096, 0.0)
    context = replace(context, prompts=replace(context.prompts, router_score={policy.router_label: scores}))
    arriving = draw_workload(context.experiment.workload, context.prompts.input_tokens, 5.0, 0)
    outcome = SimulatedCell(context, policy, arriving, 0).run()
    label = context.prompts.score[arriving.prompt]
    got = label[np.arange(len(label)), context.shape.model[outcome.instance]]
    assert np.array_equal(got, np.nanmax(label, axis=1), equal_nan=True)
    assert policy.label == "oracle (true labels)/shortest-queue"


def test_labels_reach_a_request_table_through_the_reference_alone() -> None:
    """Other labels change nothing of what any policy sees, but for what the oracle is said to prefer."""
    context = small_context(1)
    arriving = draw_workload(context.experiment.workload, context.prompts.input_tokens, 5.0, 0)
    seen = []
    for score in (context.prompts.score, 1.0 - context.prompts.score):
        prompts = replace(context.prompts, score=score)
        opinion = {oracle().router_label: oracle_scores(prompts, context.pool, 400, 0.0)}
        other = replace(context, prompts=replace(prompts, router_score=opinion))
        knn = RoutedPolicy(router="knn", dispatch="random")
        seen.append([request_table(other, arriving, policy) for policy in (knn, oracle())])
    (knn_before, oracle_before), (knn_after, oracle_after) = seen
    for name in RequestTable._fields:
        assert np.array_equal(getattr(knn_before, name), getattr(knn_after, name))
        if name != "router_score":
            assert np.array_equal(getattr(oracle_before, name), getattr(oracle_after, name))
    assert not np.array_equal(oracle_before.router_score, oracle_after.router_score)


@pytest.mark.parametrize("kind", ["oracle", "source-best"])
def test_live_cells_refuse_what_nobody_knows_of_a_live_request(kind: str) -> None:
    live = {"target": {"kind": "gateway", "url": "http://127.0.0.1:8200"}}
    with pytest.raises(ConfigError, match=rf"policies\.0: {kind} is for simulated sweeps alone"):
        experiment(engine="live", live=live, policies=[{"kind": kind}])
    found: Experiment = experiment(policies=[{"kind": kind}])
    assert found.policies[0].kind == kind
