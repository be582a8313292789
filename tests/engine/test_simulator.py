"""Single behaviours of an instance, each against a number worked out by hand."""

from __future__ import annotations

import pytest

from rbx.config.pool import Tier
from rbx.engine.simulator import EngineSim
from tests.engine.scenes import tier

# Flat steps of one second, whatever is in them: times count steps.
ONE_SECOND = {"b0_s": 1.0, "b1_s": 0.0, "b2_s": 0.0, "b3_s": 0.0}


def flat(**limits: int) -> Tier:
    return tier(**ONE_SECOND, **limits)  # type: ignore[arg-type]


def test_a_lone_request_takes_its_prefill_and_one_decode_step_a_token() -> None:
    server = tier(b0_s=0.02, b1_s=1e-4, b2_s=1e-6, b3_s=1e-8)
    engine = EngineSim([server], 1)
    engine.submit(0, 3.0, 100, 5, 5)
    engine.drain()
    first_s = 3.0 + 0.02 + 100e-4 + 1e-8 * (100 * 101 / 2)
    decode_s = sum(0.02 + 1e-4 + 1e-6 * (100 + k) for k in range(4))
    assert engine.first_scheduled_s[0] == 3.0
    assert engine.first_token_s[0] == pytest.approx(first_s, rel=1e-12)
    assert engine.done_s[0] == pytest.approx(first_s + decode_s, rel=1e-12)


def test_a_prompt_beyond_the_budget_is_computed_in_chunks() -> None:
    server = tier(b0_s=1.0, b1_s=0.0, b2_s=0.0, b3_s=2.0**-20, max_num_batched_tokens=128)
    engine = EngineSim([server], 1)
    engine.submit(0, 0.0, 300, 1, 1)
    engine.drain()
    assert engine.steps.tolist() == [3]
    assert engine.done_s[0] == 3.0 + 2.0**-20 * (300 * 301 // 2)


@pytest.mark.parametrize(("asynchronous", "first_token_s"), [(False, 5.0), (True, 6.0)])
def test_an_arrival_during_a_step_misses_the_batch_formed_ahead(
    asynchronous: bool, first_token_s: float
) -> None:
    engine = EngineSim([flat(async_scheduling=asynchronous)], 2)
    engine.submit(0, 0.0, 10, 20, 20)
    engine.submit(0, 3.5, 10, 1, 1)  # during the step from 3 to 4
    engine.drain()
    assert engine.first_token_s[1] == first_token_s


@pytest.mark.parametrize(("asynchronous", "first_token_s"), [(False, 5.0), (True, 6.0)])
def test_an_arrival_at_the_end_of_a_step_is_seen_by_the_batch_formed_then(
    asynchronous: bool, first_token_s: float
) -> None:
    # Without asynchronous scheduling that batch starts at 4; with it, the one formed at 3 does.
    engine = EngineSim([flat(async_scheduling=asynchronous)], 2)
    engine.submit(0, 0.0, 10, 20, 20)
    engine.advance(4.0)
    engine.submit(0, 4.0, 10, 1, 1)
    engine.drain()
    assert engine.first_token_s[1] == first_token_s


@pytest.mark.parametrize(("stops_by_length", "steps"), [(False, 5), (True, 4)])
def test_only_an_end_foreseen_spares_the_step_formed_ahead(stops_by_length: bool, steps: int) -> None:
    engine = EngineSim([flat()], 1)
    engine.submit(0, 0.0, 10, 4, 4, stops_by_length)
    engine.drain()
    assert engine.done_s[0] == 4.0
    engine.advance(10.0)
    assert engine.steps.tolist() == [steps]
    assert engine.busy_s.tolist() == [float(steps)]


def test_an_answer_that_fills_the_context_is_an_end_foreseen() -> None:
    engine = EngineSim([flat(max_model_len=14)], 1)
    engine.submit(0, 0.0, 10, 4, 4, stops_by_length=False)
    engine.drain()
    engine.advance(10.0)
    assert engine.steps.tolist() == [4]


def test_the_seat_of_a_foreseen_end_is_still_taken_while_its_last_step_runs() -> None:
    # Batches 1 and 2 are formed at 0. Batch 3 is formed at 1, when the last token's step 2 starts.
    engine = EngineSim([flat(max_num_seqs=1)], 2)
    engine.submit_many([0, 0], [0.0, 0.0], [10, 10], [2, 2], [2, 2], [True, True])
    engine.drain()
    assert engine.done_s[0] == 2.0
    assert engine.first_scheduled_s[1] == 2.0
    assert engine.first_token_s[1] == 3.0


def test_waiting_is_first_come_first_served_even_if_a_later_one_would_fit() -> None:
    engine = EngineSim([flat(max_model_len=64, kv_blocks=4, async_scheduling=0)], 3)
    engine.submit_many([0] * 3, [0.0, 0.0, 0.0], [30, 48, 10], [4, 1, 1], [1, 1, 1])
    engine.drain()
    # 30 tokens hold 2 of 4 blocks; the next needs 3, and the last, which needs 1, stands behind it.
    assert engine.first_scheduled_s.tolist() == [0.0, 4.0, 4.0]


def test_without_full_prompt_admission_only_the_chunk_has_to_fit() -> None:
    limits = {"max_model_len": 64, "kv_blocks": 4, "max_num_batched_tokens": 64, "async_scheduling": 0}
    for reserve, scheduled_s in ((1, 4.0), (0, 0.0)):
        engine = EngineSim([flat(reserve_full_prompt=reserve, **limits)], 2)
        engine.submit_many([0, 0], [0.0, 0.0], [32, 60], [4, 1], [1, 1])
        engine.drain()
        assert engine.first_scheduled_s[1] == scheduled_s, f"reserve_full_prompt={reserve}"


def test_the_last_one_in_gives_way_and_is_computed_anew() -> None:
    # Two blocks of 16. Both prompts fill one; the first decode step needs a second block for request 0,
    # which takes it from request 1. Request 0 decodes from 16 to 19 tokens and ends with step 4.
    engine = EngineSim([flat(max_model_len=32, kv_blocks=2, async_scheduling=0)], 2)
    engine.submit_many([0, 0], [0.0, 0.0], [16, 16], [4, 3], [4, 3])
    engine.advance(1.5)
    seen = engine.telemetry()
    assert (seen.running[0], seen.waiting[0], seen.free_blocks[0]) == (1, 1, 0)
    assert seen.pending_prefill_tokens[0] == 17  # its token counts as prompt now
    assert seen.pending_decode_tokens[0] == 3 + 2
    engine.drain()
    assert engine.preemptions.tolist() == [0, 1]
    assert engine.first_token_s.tolist() == [1.0, 1.0]
    assert engine.done_s.tolist() == [4.0, 6.0]
    assert engine.first_scheduled_s.tolist() == [0.0, 0.0]


def test_busy_time_leaves_out_the_gaps() -> None:
    engine = EngineSim([flat(), flat()], 2)
    engine.submit_many([0, 0], [1.0, 10.0], [5, 5], [2, 2], [2, 2], [True, True])
    engine.advance(2.5)
    assert engine.busy_s.tolist() == [1.5, 0.0]
    engine.advance(8.0)
    assert engine.busy_s.tolist() == [2.0, 0.0]
    engine.drain()
    assert engine.busy_s.tolist() == [4.0, 0.0]
    assert engine.clock_s == 12.0


def test_received_counts_arrivals_up_to_now_only() -> None:
    engine = EngineSim([flat()], 3)
    engine.submit_many([0] * 3, [0.0, 2.0, 2.5], [5] * 3, [9] * 3, [9] * 3)
    counts = []
    for now_s in (0.0, 1.9, 2.0, 3.0):
        engine.advance(now_s)
        counts.append(int(engine.telemetry().received[0]))
    assert counts == [1, 1, 2, 3]


def test_a_snapshot_stays_as_it_was() -> None:
    engine = EngineSim([flat()], 1)
    engine.submit(0, 5.0, 5, 50, 50)
    engine.advance(1.0)
    before = engine.telemetry()
    engine.advance(30.0)
    after = engine.telemetry()
    assert (before.stamp_s[0], before.running[0], before.received[0]) == (1.0, 0, 0)
    assert (after.stamp_s[0], after.running[0], after.received[0]) == (30.0, 1, 1)


def test_work_after_a_drain_is_served() -> None:
    engine = EngineSim([flat()], 2)
    engine.submit(0, 0.0, 5, 3, 3)
    engine.drain()
    engine.submit(0, engine.clock_s, 5, 3, 3)
    engine.drain()
    # Step 4, formed ahead, computes a token that nobody wants; the newcomer is in batch 5, formed at 3.
    assert engine.done_s.tolist() == [3.0, 7.0]
