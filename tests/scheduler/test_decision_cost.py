"""The cost of a decision, against its formula worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rbx.config.experiment import Batching
from rbx.scheduler.batching import largest_batch
from rbx.scheduler.decision_cost import DecisionTimes

TIMES = DecisionTimes(0.008, 0.001, 0.002, 0.0001, encode_max_tokens=100)


def test_encoding_stops_at_the_tokens_that_the_encoder_reads() -> None:
    assert TIMES.encode_s(np.array([50, 5000])) == pytest.approx(2 * 0.002 + (50 + 100) * 0.0001)


def test_the_loop_is_as_fast_as_full_batches_allow() -> None:
    # 2 ms + 7.5 ms of tokens to encode, 1 ms to score, and a share of 8 ms in a batch of 32
    per_request_s = 0.002 + 0.0075 + 0.001 + 0.008 / 32
    assert TIMES.fastest_per_s(np.array([50, 5000]), 32) == pytest.approx(1 / per_request_s)


def test_the_largest_batch_is_that_of_the_busiest_row_or_the_fixed_size() -> None:
    assert largest_batch(Batching()) == 32
    assert largest_batch(Batching(mode="fixed", max_size=5)) == 5
