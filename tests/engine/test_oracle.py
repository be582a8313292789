"""The compiled engine against the step-by-step reading of vLLM's scheduler, on thousands of states."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import Generator

from rbx.config.pool import StepTimeB
from rbx.engine.instance_profile import StepCoefficients
from rbx.engine.simulator import EngineSim
from tests.engine.scenes import Pair, Workload, priced_by, random_tier, random_workload

SCENES, BLOCKS, SCENES_OF_A_SET = 2400, 8, 200


def play(pair: Pair, workload: Workload, rng: Generator) -> None:
    """Stop now and then, submit half of the requests only when their time has come, then drain."""
    n = len(workload.at_s)
    late = rng.random(n) < 0.5
    pair.submit(workload.rows(np.flatnonzero(~late)))
    moments = np.concatenate([rng.uniform(0.0, workload.at_s.max() + 3.0, 8), workload.at_s[late]])
    for now_s in np.sort(moments):
        pair.advance(float(now_s))
        pair.assert_same_state()
        if rng.random() < 0.5:  # else together with a later one that may be in the past by then
            due = np.flatnonzero(late & (workload.at_s >= now_s))[:3]
            late[due] = False
            pair.submit(workload.rows(due))
    pair.submit(workload.rows(np.flatnonzero(late & (workload.at_s >= pair.engine.clock_s))))
    pair.drain()
    pair.assert_same_results()
    assert not np.isnan(pair.engine.done_s).any()


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("exact", [True, False], ids=["exact-times", "rounded-times"])
def test_engine_equals_the_plain_reading(exact: bool, block: int) -> None:
    preempted = finished = 0
    for seed in range(block, SCENES // 2, BLOCKS):
        rng = np.random.default_rng([seed, exact])
        tiers = [random_tier(rng, exact=exact) for _ in range(int(rng.integers(1, 4)))]
        workload = random_workload(rng, tiers, int(rng.integers(1, 40)), exact=exact)
        pair = Pair(tiers, len(workload.at_s), rtol=0.0 if exact else 1e-9)
        play(pair, workload, rng)
        finished += len(pair.requests)
        preempted += int(pair.engine.preemptions.sum())
    assert finished > 1000
    assert preempted > 100, "the scenes no longer reach preemption"


@pytest.mark.parametrize("feature_set", ["B", "C"])
@pytest.mark.parametrize("exact", [True, False], ids=["exact-times", "rounded-times"])
def test_every_feature_set_is_priced_as_the_plain_reading_does(exact: bool, feature_set: str) -> None:
    preempted = finished = 0
    for seed in range(SCENES_OF_A_SET):
        rng = np.random.default_rng([seed, exact, ord(feature_set)])
        tiers = [random_tier(rng, exact=exact) for _ in range(int(rng.integers(1, 4)))]
        tiers = [priced_by(server, rng.choice(["A", feature_set]), rng, exact=exact) for server in tiers]
        workload = random_workload(rng, tiers, int(rng.integers(1, 40)), exact=exact)
        pair = Pair(tiers, len(workload.at_s), rtol=0.0 if exact else 1e-9)
        play(pair, workload, rng)
        finished += len(pair.requests)
        preempted += int(pair.engine.preemptions.sum())
    assert finished > 1000
    assert preempted > 20, "the scenes no longer reach preemption"


@pytest.mark.parametrize("feature_set", ["A", "C"])
def test_a_tier_and_its_form_in_b_give_the_same_bits(feature_set: str) -> None:
    keys = [key for key in StepTimeB.model_fields if key not in ("feature_set", "source")]
    for seed in range(100):
        rng = np.random.default_rng([seed, ord(feature_set)])
        server = priced_by(random_tier(rng, exact=False), feature_set, rng, exact=False)
        terms = dict(zip(keys, StepCoefficients.of(server.step_time).as_b, strict=True))
        form = StepTimeB(feature_set="B", source="derived", **terms)
        workload = random_workload(rng, [server], 30, exact=False)
        done = []
        for chosen in (server, server.model_copy(update={"step_time": form})):
            engine = EngineSim([chosen], 30)
            engine.submit_many(*workload.rows(np.arange(30)))
            engine.drain()
            done.append((engine.first_token_s.tolist(), engine.done_s.tolist()))
        assert done[0] == done[1]
