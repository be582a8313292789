"""Every baseline of BEAR in whole cells: it ends, by the seed alone, and is not another one in disguise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rbx.config.dispatch import (
    DispatchConfig,
    EwmaLatency,
    LeastWork,
    Llumnix,
    LmDeploy,
    Mooncake,
    PowerOfD,
    PredictedLatency,
    VllmSr,
)
from rbx.config.policy import RoutedPolicy, ScorePolicy, SinglePolicy
from rbx.errors import ConfigError
from rbx.sweep.simulate import Outcome, SimulatedCell
from rbx.sweep.workload import draw_workload
from tests.sweep.scenes import small_context

DISPATCHERS: tuple[DispatchConfig, ...] = (
    PowerOfD(),
    LeastWork(),
    LmDeploy(),
    Mooncake(),
    EwmaLatency(),
    Llumnix(),
    VllmSr(warm_up_requests=5),
    PredictedLatency(retrain_every=50, trees=20),
)
POLICIES: tuple[SinglePolicy, ...] = (
    *(RoutedPolicy(router="passthrough", dispatch=dispatch) for dispatch in DISPATCHERS),
    ScorePolicy(),
)
SHORTEST = RoutedPolicy(router="passthrough", dispatch="shortest-queue")


def run(policy: SinglePolicy, *, seed: int = 0, rate_per_s: float = 20.0, **changes: Any) -> Outcome:
    workload = {"slo": {"ttft_target": {}}, **changes.pop("workload", {})}
    context = small_context(0, workload=workload, **changes)
    arriving = draw_workload(context.experiment.workload, context.prompts.input_tokens, rate_per_s, 0)
    return SimulatedCell(context, policy, arriving, seed).run()


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.label)
def test_it_serves_everyone_by_the_seed_alone_and_in_its_own_way(policy: SinglePolicy) -> None:
    outcome, again = run(policy), run(policy)
    assert np.isfinite(outcome.done_s).all()
    assert (outcome.instance >= 0).all()
    assert (outcome.output_tokens == np.minimum(outcome.wanted_tokens, outcome.max_tokens)).all()
    assert outcome.instance.tolist() == again.instance.tolist()
    assert outcome.done_s.tolist() == again.done_s.tolist()
    assert (outcome.instance != run(SHORTEST).instance).mean() > 0.1


@pytest.mark.parametrize("policy", [POLICIES[0], POLICIES[2]], ids=lambda policy: policy.label)
def test_those_that_draw_lots_draw_others_with_another_seed(policy: SinglePolicy) -> None:
    assert run(policy, seed=0).instance.tolist() != run(policy, seed=1).instance.tolist()


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.label)
def test_a_burst_in_one_batch_spreads_over_the_instances(policy: SinglePolicy) -> None:
    """Before anybody has answered; no replica is left out or gets it all."""
    together = {"batching": {"mode": "fixed", "max_size": 30, "window_s": 5.0}}
    arrivals = {"n_requests": 30, "arrivals": {"kind": "constant"}}
    batched = (
        policy
        if isinstance(policy, RoutedPolicy)
        else ScorePolicy(batched=True, latency_weight=50.0, cost_weight=0.0)
    )
    outcome = run(batched, rate_per_s=1000.0, scheduler=together, workload=arrivals)
    assert set(outcome.batch_size.tolist()) == {30}
    sent = np.bincount(outcome.instance, minlength=5)
    assert sent.max() < 30
    assert sent[:3].min() >= 3
    assert (sent > 0).sum() >= 3


@pytest.mark.parametrize("dispatch", DISPATCHERS, ids=lambda dispatch: dispatch.label)
def test_it_crosses_with_every_router(dispatch: DispatchConfig) -> None:
    large = run(RoutedPolicy(router="always", model="large", dispatch=dispatch), rate_per_s=4.0)
    assert set(large.instance.tolist()) == {3, 4}
    for router in ("random", "mix"):
        policy = RoutedPolicy.model_validate({"router": router, "dispatch": dispatch})
        assert set(run(policy, rate_per_s=4.0).instance.tolist()) == {0, 1, 2, 3, 4}


def test_given_speeds_move_traffic_and_must_name_the_pools_models() -> None:
    def share_of_large(dispatch: LmDeploy) -> float:
        return float((run(RoutedPolicy(router="passthrough", dispatch=dispatch)).instance >= 3).mean())

    even = share_of_large(LmDeploy(requests_per_s={"small": 1.0, "large": 1.0}))
    fast = share_of_large(LmDeploy(requests_per_s={"small": 0.1, "large": 1.0}))
    assert fast > even + 0.2
    with pytest.raises(ConfigError, match="requests_per_s names huge, small"):
        share_of_large(LmDeploy(requests_per_s={"small": 1.0, "huge": 1.0}))


def test_dispatchers_that_know_no_lengths_wait_for_no_encoder() -> None:
    blind = run(RoutedPolicy(router="passthrough", dispatch=Mooncake()))
    predicting = run(RoutedPolicy(router="passthrough", dispatch=LeastWork()))
    assert (blind.encode_s == 0.0).all()
    assert (predicting.encode_s > 0.0).all()
