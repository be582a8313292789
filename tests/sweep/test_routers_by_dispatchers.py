"""Every router with every dispatcher in whole cells: everybody is served, and the router picks the model."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from rbx.config.dispatch import (
    Dispatch,
    DispatchConfig,
    EwmaLatency,
    LeastWork,
    Llumnix,
    LmDeploy,
    Mooncake,
    PowerOfD,
    PredictedLatency,
    ScoreConfig,
    VllmSr,
    dispatch_label,
)
from rbx.config.plugin_policy import PluginPolicy
from rbx.config.policy import RoutedPolicy, SinglePolicy
from rbx.config.routed_policy import PlainRouterName, TrainedRouterName
from rbx.sweep.oracle import oracle_scores
from rbx.sweep.simulate import Outcome, SimulatedCell
from rbx.sweep.workload import draw_workload
from tests.policy.plugged import plug_in
from tests.sweep.scenes import MODELS, small_context

DISPATCHERS: tuple[DispatchConfig, ...] = (
    *get_args(Dispatch),
    PowerOfD(),
    LeastWork(),
    LmDeploy(),
    Mooncake(),
    EwmaLatency(),
    Llumnix(),
    VllmSr(warm_up_requests=3),
    PredictedLatency(retrain_every=20, trees=5),
)
ROUTERS = (*get_args(PlainRouterName), *get_args(TrainedRouterName), "plugin")
SETTINGS: dict[str, dict[str, Any]] = {
    "always": {"model": "large"},
    "mix": {"shares": {"small": 1.0, "large": 2.0}},
    "omni-router": {"min_quality": 0.5},
    "port": {"mean_budget_usd": 1e-4},
}
DRAWN = {"passthrough", "random", "mix", "port"}  # another batch, another draw
PLUGIN = """
    class EveryOther:
        needs_predictions = False

        def choose(self, requests, table):
            return table.input_tokens[requests] % 2

    def make(given):
        return EveryOther()
"""


def routed(router: str, dispatch: DispatchConfig) -> SinglePolicy:
    if router == "plugin":
        return PluginPolicy(name="plug_every_other", dispatch=dispatch)
    return RoutedPolicy.model_validate({"router": router, "dispatch": dispatch, **SETTINGS.get(router, {})})


def run(policy: SinglePolicy) -> Outcome:
    workload = {"n_requests": 60, "slo": {"ttft_target": {}}}
    context = small_context(2, workload=workload)
    if isinstance(policy, RoutedPolicy) and policy.goes_by_score:
        drawn = np.random.default_rng(5).random(context.prompts.quality.shape)
        score = oracle_scores(context.prompts, context.pool, 400, 0.0) if policy.sees_labels else drawn
        context = replace(
            context, prompts=replace(context.prompts, router_score={policy.router_label: score})
        )
    arriving = draw_workload(context.experiment.workload, context.prompts.input_tokens, 12.0, 0)
    return SimulatedCell(context, policy, arriving, 0).run()


def models_of(outcome: Outcome) -> list[str]:
    return [MODELS[int(instance >= 3)] for instance in outcome.instance]


def test_no_dispatcher_is_missing_here() -> None:
    scored = {kind.model_fields["kind"].default for kind in get_args(get_args(ScoreConfig)[0])}
    named = {each if isinstance(each, str) else each.kind for each in DISPATCHERS}
    assert named == {*get_args(Dispatch), *scored}


@pytest.mark.parametrize("router", ROUTERS)
def test_the_router_picks_the_model_whoever_dispatches(
    router: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plug_in(monkeypatch, tmp_path, "plug_every_other", PLUGIN)
    chosen: dict[str, list[str]] = {}
    for dispatch in DISPATCHERS:
        outcome = run(routed(router, dispatch))
        assert np.isfinite(outcome.done_s).all()
        assert (outcome.instance >= 0).all()
        chosen[dispatch_label(dispatch)] = models_of(outcome)
    if router not in DRAWN:
        for one, other in itertools.pairwise(chosen.values()):
            assert one == other
    if router != "always":
        assert all(set(models) == set(MODELS) for models in chosen.values())
