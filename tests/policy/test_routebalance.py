"""Where RouteBalance takes its latency from."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest

from rbx.config.policy import RouteBalancePolicy
from rbx.policy.base import Assignment
from rbx.policy.routebalance import RouteBalance
from tests.policy.algorithm1 import Ask, Server
from tests.policy.scenes import shape_of, state_of, table_of, view_of

PRIOR_S = (0.02, 0.05)


class _Tpot:
    """Never asked about the prior."""

    def predict(self, features: np.ndarray, tier_of_instance: np.ndarray) -> np.ndarray:
        tpot_s: np.ndarray = np.array([0.01, 0.04])[tier_of_instance]
        return tpot_s


def placed(latency: Literal["xgboost", "prior"], servers: list[Server], ask: Ask) -> Assignment:
    config = RouteBalancePolicy(weights=(0.0, 1.0, 0.0), latency=latency)
    shape = shape_of(servers)._replace(tpot_prior_s=np.array(PRIOR_S))
    policy = RouteBalance(config, shape, _Tpot())
    return policy.assign(np.arange(1), table_of([ask]), view_of(servers, 1), state_of(servers))


def test_the_prior_is_time_per_token_times_length_whatever_waits() -> None:
    """Table 7, arm 4: no telemetry term. The fast tier is drowned and taken all the same."""
    drowned = Server(0, 1e-7, 1e-7, 4, 8192, running=4, waiting=9, pending_decode=4000.0)
    idle = Server(1, 1e-7, 1e-7, 4, 8192)
    ask = Ask(10, 1024, math.inf, [0.5, 0.5], [100.0, 80.0])
    static = placed("prior", [drowned, idle], ask)
    assert static.instance.tolist() == [0]
    assert static.latency_s[0] == pytest.approx(PRIOR_S[0] * 100.0)
    told = placed("xgboost", [drowned, idle], ask)
    assert told.instance.tolist() == [1]
    assert told.latency_s[0] == pytest.approx(0.04 * 80.0)
