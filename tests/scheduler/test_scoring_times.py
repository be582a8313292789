"""The cost of a scoring call, against its formula worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rbx.config.deployment import ScoringQueue
from rbx.config.scoring_cost import ScoringCost
from rbx.scheduler.decision_cost import DecisionTimes
from rbx.scheduler.scoring_stage import fastest_per_s
from rbx.scheduler.scoring_times import ScoringTimes

COST = ScoringCost(
    fixed_s=0.04, per_request_s=0.002, per_token_s=0.0001, max_tokens=100, padded=True, worker_slowdown=3.0
)
TOKENS = np.array([50, 5000, 10])


def test_a_padded_call_takes_each_prompt_for_as_long_as_the_longest() -> None:
    assert ScoringTimes.of(COST, 1).call_s(TOKENS) == pytest.approx(0.04 + 3 * 0.002 + 3 * 100 * 0.0001)


def test_an_unpadded_one_reads_each_prompt_at_its_length() -> None:
    times = ScoringTimes.of(COST.model_copy(update={"padded": False}), 1)
    assert times.call_s(TOKENS) == pytest.approx(0.04 + 3 * 0.002 + (50 + 100 + 10) * 0.0001)


@pytest.mark.parametrize("padded", [False, True])
def test_without_a_prompt_there_is_no_call(padded: bool) -> None:
    times = ScoringTimes.of(COST.model_copy(update={"padded": padded}), 1)
    assert times.call_s(np.zeros(0, dtype=np.int64)) == 0.0


def test_several_workers_are_slowed_down_and_one_is_not() -> None:
    alone, beside = (ScoringTimes.of(COST, workers).call_s(TOKENS) for workers in (1, 8))
    assert beside == pytest.approx(3 * alone)


def test_a_router_takes_the_encoders_place_and_nothing_is_read_twice() -> None:
    times = DecisionTimes(0.0, 0.0, 0.002, 0.0001, encode_max_tokens=100)
    assert times.encode_s(TOKENS) == pytest.approx(3 * 0.002 + (50 + 100 + 10) * 0.0001)
    routed = DecisionTimes(0.0, 0.0, 0.002, 0.0001, 100, ScoringTimes.of(COST, 1))
    assert routed.encode_s(TOKENS) == ScoringTimes.of(COST, 1).call_s(TOKENS)
    assert times.scored_before.encode_s(TOKENS) == routed.scored_before.encode_s(TOKENS) == 0.0


def test_the_rate_is_that_of_full_calls_on_all_workers() -> None:
    # Two calls of two prompts: (50, 100) and, begun again, (10, 50).
    call_s = [0.04 + 2 * 0.002 + 2 * longest * 0.0001 for longest in (100, 50)]
    queue = ScoringQueue(workers=3, max_size=2, window_s=0.5, rpc_s=0.1)
    times = ScoringTimes.of(COST, 1)
    assert fastest_per_s(TOKENS, queue, times) == pytest.approx(3 * 2 / np.mean(call_s))
    assert fastest_per_s(TOKENS, queue, ScoringTimes(0.0, 0.0, 0.0, 1)) == np.inf
