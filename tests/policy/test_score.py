"""SCORE against a plain reading of its formula."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.config.policy import ScorePolicy
from rbx.engine.instance_profile import InstanceProfile, StepCoefficients
from rbx.heads.lps import Traffic
from rbx.policy.score import Score
from rbx.policy.ttft.build import LatencyModel
from tests.engine.scenes import tier
from tests.policy.plain_bear import cap_of, largest, length_of, send, within_budget
from tests.policy.scenes import random_asks, random_servers, shape_of, state_of, table_of, view_of


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    tradeoff=st.sampled_from([0.0, 5e-4, 0.05, 0.5]),
    decode_step=st.sampled_from(["calibrated", "current"]),
)
def test_it_takes_the_best_of_quality_less_cost_and_latency(
    seed: int, tradeoff: float, decode_step: str
) -> None:
    rng = np.random.default_rng(seed)
    servers, asks = random_servers(rng, 3), random_asks(rng, 8, 3)
    limits = tier().limits
    prices = [(0.01 * (s.model + 1), 2e-5, 1e-4, 1e-7, 1e-9, 2e-9) for s in servers]
    profiles = tuple(InstanceProfile(limits, StepCoefficients("B", "made up", price)) for price in prices)
    latency = LatencyModel(shape_of(servers), profiles, (Traffic(200.0, 100.0),) * len(servers), ())
    config = ScorePolicy.model_validate(
        {"tradeoff": tradeoff, "cost_weight": 0.02, "latency_weight": 3.0, "decode_step": decode_step}
    )
    state = state_of(servers)
    got = Score(config, latency).assign(np.arange(8), table_of(asks), view_of(servers, 8), state)
    speeds = latency.speeds
    placed, caps = [], []
    servers, sequence = copy.deepcopy(servers), 0
    for ask in asks:
        worth = {}
        for i in within_budget(ask, servers):
            server, length = servers[i], length_of(ask, servers[i])
            n = min(server.running + 1, server.max_num_seqs)
            step_s = prices[i][0] + n * prices[i][2] + prices[i][3] * round(n * (200 + 0.5 * 100 * 2))
            if decode_step == "calibrated":
                step_s = float(speeds.decode_step_s[i])
            wait_s = (server.pending_prefill + ask.input_tokens) / float(speeds.prefill_tokens_per_s[i])
            wait_s += server.pending_decode / float(speeds.decode_tokens_per_s[i])
            price = 0.02 * 1e6 * server.price_out_usd * length + 3.0 * (wait_s + step_s * length)
            worth[i] = round(ask.quality[server.model] - tradeoff * price, 9)
        if not worth:
            placed.append(-1)
            caps.append(0)
            continue
        best = largest(sorted(worth), worth.__getitem__, servers)
        placed.append(best)
        caps.append(cap_of(ask, servers[best]))
        send(ask, servers[best], sequence)
        sequence += 1
    assert got.instance.tolist() == placed
    assert got.max_tokens.tolist() == caps
    assert state.waiting.tolist() == [server.waiting for server in servers]
    assert (got.on_time == -1).all()


def test_its_labels_tell_its_constants_apart() -> None:
    policies = [
        ScorePolicy(tradeoff=t, cost_weight=c, latency_weight=w)
        for t in (5e-4, 0.05)
        for c in (0.01, 0.1)
        for w in (1.0, 2.0)
    ]
    assert len({policy.label for policy in policies}) == 8
    assert ScorePolicy().label == "score λ0.05"
    with pytest.raises(ValueError, match="tradeoff"):
        ScorePolicy(tradeoff=math.nan)
