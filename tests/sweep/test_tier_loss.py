"""A tier that is lost in a cell: nothing is sent there from that moment on, and what runs there is served."""

from __future__ import annotations

import numpy as np
import pytest

from rbx.config.policy import RouteBalancePolicy, RoutedPolicy, SinglePolicy
from tests.sweep.scenes import small_context
from tests.sweep.test_simulate import run

BALANCED = RouteBalancePolicy(weights=(0.6, 0.2, 0.2))
SHORTEST = RoutedPolicy(router="passthrough", dispatch="shortest-queue")
LARGE = (3, 4)  # its instances


@pytest.mark.parametrize("policy", [BALANCED, SHORTEST], ids=lambda policy: policy.label)
def test_a_lost_tier_gets_nothing_more_and_serves_what_it_has(policy: SinglePolicy) -> None:
    whole = run(small_context(), policy)[1]
    assert np.isin(whole.instance, LARGE).any()
    at_s = float(np.median(whole.decided_s))
    context = small_context(tier_loss={"tier": "large_gpu", "at_s": at_s})
    _, outcome = run(context, policy)
    on_large = np.isin(outcome.instance, LARGE)
    before = outcome.decided_s < at_s
    assert (on_large & before).any()
    assert not (on_large & ~before & (outcome.decided_s > at_s + 0.1)).any()
    assert np.isfinite(outcome.done_s).all()
    assert (outcome.done_s[on_large] > at_s).any()
    # Up to the loss the two cells are one.
    assert outcome.instance[before].tolist() == whole.instance[: before.sum()].tolist()


def test_from_the_start_it_is_as_if_the_tier_were_not_there() -> None:
    _, outcome = run(small_context(tier_loss={"tier": "large_gpu"}), BALANCED)
    assert set(outcome.instance.tolist()) <= {0, 1, 2}
    assert len(set(outcome.instance.tolist())) > 1


def test_a_router_that_asks_for_a_lost_model_finds_nobody() -> None:
    always = RoutedPolicy(router="always", model="large", dispatch="shortest-queue")
    _, outcome = run(small_context(tier_loss={"tier": "large_gpu"}), always)
    assert (outcome.instance == -1).all()
