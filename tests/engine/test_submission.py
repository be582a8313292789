"""What an engine refuses, and that a refusal changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rbx.engine.simulator import EngineSim
from rbx.errors import EngineError
from tests.engine.scenes import tier

GOOD: dict[str, Any] = {
    "instance": 0,
    "at_s": 1.0,
    "prompt_tokens": 10,
    "output_tokens": 5,
    "predicted_tokens": 4,
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"instance": 2}, "instance 2 does not exist; there are 2"),
        ({"instance": -1}, "instance -1 does not exist"),
        ({"at_s": 0.5}, r"arrives at 0\.5 s and the clock shows 1\.0 s"),
        ({"at_s": float("nan")}, "arrives at nan s"),
        ({"at_s": float("inf")}, "finite time"),
        ({"prompt_tokens": 0}, "prompt 0, output 5"),
        ({"output_tokens": 0}, "at least 1"),
        ({"predicted_tokens": -3}, "predicted output -3"),
        ({"prompt_tokens": 2048}, "max_model_len = 2048 .* cap the output at 0"),
        ({"prompt_tokens": 48, "output_tokens": 2001}, "cap the output at 2000"),
        ({"output_tokens": 2.5}, "output_tokens must be whole numbers, not float64"),
    ],
)
def test_a_bad_request_is_refused_with_its_limit(change: dict[str, Any], words: str) -> None:
    engine = EngineSim([tier(), tier()], 4)
    engine.submit(**GOOD)
    engine.advance(1.0)
    with pytest.raises(EngineError, match=words):
        engine.submit(**{**GOOD, **change})
    with pytest.raises(EngineError, match=r"request 1 of this submission|whole numbers"):
        engine.submit_many(*([GOOD[key], {**GOOD, **change}[key]] for key in GOOD))
    engine.drain()
    assert len(engine.done_s) == 1
    assert engine.telemetry().received.tolist() == [1, 0]


def test_capacity_is_a_limit_by_name() -> None:
    engine = EngineSim([tier()], 2)
    engine.submit_many([0, 0], [0.0, 0.0], [1, 1], [1, 1], [1, 1])
    with pytest.raises(EngineError, match="2 requests are in and 1 more would pass the capacity of 2"):
        engine.submit(**GOOD)


@pytest.mark.parametrize("until_s", [0.5, float("nan"), float("inf")])
def test_time_only_moves_on(until_s: float) -> None:
    engine = EngineSim([tier()], 1)
    engine.advance(1.0)
    with pytest.raises(EngineError, match="can't advance to"):
        engine.advance(until_s)


def test_an_engine_needs_instances_and_room() -> None:
    with pytest.raises(EngineError, match="at least one instance"):
        EngineSim([], 1)
    with pytest.raises(EngineError, match="can't be negative"):
        EngineSim([tier()], -1)


def test_an_empty_submission_is_fine() -> None:
    engine = EngineSim([tier()], 0)
    assert engine.submit_many([], [], [], [], []).tolist() == []
    engine.drain()
    assert engine.clock_s == 0.0


def test_columns_must_be_of_one_length() -> None:
    engine = EngineSim([tier()], 4)
    with pytest.raises(EngineError, match=r"prompt_tokens has shape \(1,\) and at_s has 2 entries"):
        engine.submit_many([0, 0], [0.0, 0.0], [5], [5, 5], [5, 5])
    with pytest.raises(EngineError, match="one column of times"):
        engine.submit_many(0, 0.0, 5, 5, 5)


def test_slots_count_up_and_equal_times_keep_the_order_of_submission() -> None:
    engine = EngineSim([tier(max_num_seqs=1)], 6)
    slots = engine.submit_many([0] * 4, [2.0, 1.0, 2.0, 1.0], [5] * 4, [3] * 4, [3] * 4)
    assert slots.tolist() == [0, 1, 2, 3]
    assert engine.submit(0, 1.0, 5, 3, 3) == 4
    assert engine.submit(0, 0.0, 5, 3, 3) == 5
    engine.drain()
    assert np.argsort(engine.done_s).tolist() == [5, 1, 3, 4, 0, 2]
