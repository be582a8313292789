"""The runtime orders a batch, books what telemetry does not show yet, and keeps time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rbx.config.experiment import Batching, SchedulerConfig
from rbx.config.policy import RoutedPolicy
from rbx.heads.bea.unseen import NOTHING_UNSEEN, UnseenRequests
from rbx.policy.base import Assignment, Needs
from rbx.policy.build import build_policy
from rbx.policy.pool_state import PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.view import PoolView, Served
from rbx.scheduler.decision_cost import DecisionTimes
from rbx.scheduler.runtime import SchedulerRuntime
from tests.policy.algorithm1 import Ask, Server
from tests.policy.scenes import blind_latency_model, shape_of, table_of, telemetry_of
from tests.policy.test_dispatch import NoTpot

TIMES = DecisionTimes(0.001, 0.002, 0.01, 0.001, encode_max_tokens=256)
SERVERS = [Server(0, 1e-7, 1e-7, 2, 8192) for _ in range(4)]


class Recorder:
    """Sends all to instance 0 and remembers what it was shown."""

    def __init__(self, *, needs_predictions: bool) -> None:
        self.needs = Needs(predictions=needs_predictions)
        self.seen: list[tuple[list[int], list[int], list[int]]] = []

    def assign(
        self, requests: np.ndarray, table: RequestTable, view: PoolView, state: PoolState
    ) -> Assignment:
        self.seen.append((requests.tolist(), state.running.tolist(), state.waiting.tolist()))
        n = len(requests)
        at = np.zeros(n, dtype=np.int64)
        return Assignment.without_ttft(at, at + 10, np.zeros(n), np.full(n, 5.0), np.zeros(n))

    def learn(self, served: Served) -> None:
        raise AssertionError("nobody asked to learn")


def asks(lengths: list[float], tokens: int = 20) -> RequestTable:
    return table_of([Ask(tokens, 1000, math.inf, [0.5], [length]) for length in lengths])


def runtime_of(policy: Recorder, table: RequestTable, order: str = "lpt") -> SchedulerRuntime:
    config = SchedulerConfig.model_validate(
        {"order": order, "batching": {"mode": "fixed", "max_size": 3, "window_s": 0.05}}
    )
    return SchedulerRuntime(config, policy, shape_of(SERVERS), table, TIMES)


def decide(runtime: SchedulerRuntime, requests: list[int], now_s: float, received: int = 0) -> float:
    for request in requests:
        runtime.submit(request, now_s)
    batch = runtime.close(runtime.closes_s())
    decision = runtime.decide(batch, telemetry_of(SERVERS, received), batch.ready_s)
    return decision.decided_s


def test_longest_predicted_output_first_and_fifo_for_equal_ones() -> None:
    policy = Recorder(needs_predictions=True)
    decide(runtime_of(policy, asks([5.0, 90.0, 5.0])), [0, 1, 2], 1.0)
    assert policy.seen[0][0] == [1, 0, 2]


def test_fifo_keeps_the_order_of_arrival() -> None:
    policy = Recorder(needs_predictions=True)
    decide(runtime_of(policy, asks([5.0, 90.0, 7.0]), order="fifo"), [2, 0, 1], 1.0)
    assert policy.seen[0][0] == [2, 0, 1]


def test_a_policy_without_predictions_neither_sorts_nor_pays_the_encoder() -> None:
    policy = Recorder(needs_predictions=False)
    decided_s = decide(runtime_of(policy, asks([5.0, 90.0, 7.0])), [0, 1, 2], 1.0)
    assert policy.seen[0][0] == [0, 1, 2]
    assert decided_s == pytest.approx(1.0 + 0.001 + 3 * 0.002)


def test_decision_time_is_encoder_plus_scoring_and_the_next_batch_waits_for_it() -> None:
    policy = Recorder(needs_predictions=True)
    runtime = runtime_of(policy, asks([5.0] * 6))
    decided_s = decide(runtime, [0, 1, 2], 1.0)
    assert decided_s == pytest.approx(1.0 + 3 * 0.01 + 60 * 0.001 + 0.001 + 3 * 0.002)
    for request in (3, 4, 5):
        runtime.submit(request, 1.01)
    assert runtime.closes_s() == decided_s


def test_the_encoder_cuts_long_prompts() -> None:
    policy = Recorder(needs_predictions=True)
    decided_s = decide(runtime_of(policy, asks([5.0], tokens=5000)), [0], 1.0)
    window_s = 0.05
    assert decided_s == pytest.approx(1.0 + window_s + 0.01 + 256 * 0.001 + 0.003)


def test_dispatches_that_telemetry_does_not_show_stay_booked_until_it_does() -> None:
    policy = Recorder(needs_predictions=False)
    runtime = runtime_of(policy, asks([5.0] * 9))
    decide(runtime, [0, 1, 2], 1.0)
    decide(runtime, [3, 4, 5], 2.0)
    decide(runtime, [6, 7, 8], 3.0, received=6)
    (_, *first), (_, *second), (_, *third) = policy.seen
    assert first == [[0, 0, 0, 0], [0, 0, 0, 0]]
    assert second == [[2, 0, 0, 0], [1, 0, 0, 0]]  # two seats, one waits
    assert third == [[0, 0, 0, 0], [0, 0, 0, 0]]


def test_a_driver_that_knows_what_telemetry_lacks_is_believed_instead_of_counting() -> None:
    """Nothing is booked twice, and nothing stays booked that the driver no longer names."""
    policy = Recorder(needs_predictions=False)
    runtime = runtime_of(policy, asks([5.0] * 9))
    told = UnseenRequests.of([0.5, 0.6, 0.7], [20] * 3, [10] * 3, [5] * 3)
    for unseen in (told, NOTHING_UNSEEN):
        for request in range(3):
            runtime.submit(request, 1.0)
        batch = runtime.close(runtime.closes_s())
        on_others = (NOTHING_UNSEEN,) * 3
        runtime.decide(batch, telemetry_of(SERVERS), batch.ready_s, unseen=(unseen, *on_others))
    (_, *first), (_, *second) = policy.seen
    assert first == [[2, 0, 0, 0], [1, 0, 0, 0]]
    assert second == [[0, 0, 0, 0], [0, 0, 0, 0]]


def test_a_burst_under_frozen_telemetry_spreads_over_the_pool() -> None:
    shape = shape_of(SERVERS)
    config = RoutedPolicy(router="passthrough", dispatch="shortest-queue")
    policy = build_policy(config, ("m",), NoTpot(), blind_latency_model(SERVERS), np.random.default_rng(0))
    scheduler = SchedulerConfig(batching=Batching(mode="fixed", max_size=4, window_s=0.0))
    runtime = SchedulerRuntime(scheduler, policy, shape, asks([5.0] * 64), TIMES)
    for request in range(64):
        runtime.submit(request, 0.0)
    counts = np.zeros(4, dtype=np.int64)
    while (closes_s := runtime.closes_s()) < np.inf:
        batch = runtime.close(closes_s)
        decision = runtime.decide(batch, telemetry_of(SERVERS), batch.ready_s)
        counts += np.bincount(decision.assignment.instance, minlength=4)
    assert counts.tolist() == [16, 16, 16, 16]
