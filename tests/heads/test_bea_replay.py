"""Single behaviours of a replay, each against a number worked out by hand. Steps take one second."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rbx.config.pool import Tier
from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.simulator import EngineSim
from rbx.engine.snapshot_export import export_snapshot
from rbx.heads.bea.prediction import Probe, ReplayCaps, TtftFlag
from rbx.heads.bea.ttft import predict_ttft
from rbx.heads.bea.unseen import UnseenRequests
from tests.engine.scenes import tier


def flat(**limits: int) -> Tier:
    return tier(b0_s=1.0, b1_s=0.0, b2_s=0.0, b3_s=0.0, **limits)


def busy(server: Tier, at_s: float = 2.25, requests: int = 1) -> InstanceSnapshot:
    """Requests of 16 prompt and 100 output tokens since 0 s, seen at ``at_s``."""
    engine = EngineSim([server], requests)
    engine.submit_many([0] * requests, [0.0] * requests, [16] * requests, [100] * requests, [100] * requests)
    engine.advance(at_s)
    return export_snapshot(engine, 0, InstanceProfile.of(server))


def test_an_idle_instance_starts_at_once() -> None:
    server = tier(b0_s=0.02, b1_s=1e-4, b2_s=1e-6, b3_s=1e-8)
    seen = export_snapshot(EngineSim([server], 0), 0, InstanceProfile.of(server))
    predicted = predict_ttft(seen, Probe(100), now_s=7.0)
    assert predicted.seconds == pytest.approx(0.02 + 100e-4 + 1e-8 * 5050, rel=1e-9)
    assert (predicted.steps, predicted.flags) == (1, 0)


@pytest.mark.parametrize(("asynchronous", "seconds", "steps"), [(0, 1.75, 2), (1, 2.75, 3)])
def test_the_running_step_and_the_batch_ahead_come_first(
    asynchronous: int, seconds: float, steps: int
) -> None:
    predicted = predict_ttft(busy(flat(async_scheduling=asynchronous)), Probe(10))
    assert predicted.seconds == pytest.approx(seconds)
    assert predicted.steps == steps


def test_an_overdue_step_ends_now() -> None:
    seen = replace(busy(flat(async_scheduling=0)), stamp_s=5.5)  # its step began at 2
    predicted = predict_ttft(seen, Probe(10))
    assert predicted.seconds == pytest.approx(1.0)
    assert predicted.flags == TtftFlag.OVERDUE


def test_an_old_snapshot_is_brought_up_to_date() -> None:
    seen = busy(flat(async_scheduling=0))
    predicted = predict_ttft(seen, Probe(10), now_s=10.5)
    assert predicted.seconds == pytest.approx(1.5)
    assert predicted.flags == TtftFlag.AGED
    assert predict_ttft(seen, Probe(10), now_s=2.75).flags == 0


def test_dispatched_requests_stand_before_the_probe() -> None:
    seen = busy(flat(async_scheduling=0, max_num_seqs=3))
    two = UnseenRequests.of([2.0, 2.25], [16, 16], [50, 50], [5, 7])
    assert predict_ttft(seen, Probe(10)).seconds == pytest.approx(1.75)
    # They join the batch at 3 and the first of them leaves at 8.
    assert predict_ttft(seen, Probe(10), unseen=two).seconds == pytest.approx(6.75)


def test_prefix_hits_lower_the_prefill() -> None:
    seen = busy(flat(async_scheduling=0, max_num_batched_tokens=64))
    assert predict_ttft(seen, Probe(300)).steps == 1 + 5  # 63 a step beside one decode
    assert predict_ttft(seen, Probe(300, cached_prefix_tokens=288)).steps == 1 + 1
    ahead = UnseenRequests.of([2.25], [300], [50], [50])
    hit = UnseenRequests.of([2.25], [300], [50], [50], [288])
    assert predict_ttft(seen, Probe(10), unseen=ahead).steps == 1 + 5
    assert predict_ttft(seen, Probe(10), unseen=hit).steps == 1 + 1


def test_a_prefix_hit_is_priced_over_its_context() -> None:
    server = tier(b0_s=0.02, b1_s=1e-4, b2_s=1e-6, b3_s=1e-8)
    seen = export_snapshot(EngineSim([server], 0), 0, InstanceProfile.of(server))
    predicted = predict_ttft(seen, Probe(100, cached_prefix_tokens=64))
    assert predicted.seconds == pytest.approx(0.02 + 36e-4 + 1e-8 * (36 * 64 + 36 * 37 / 2), rel=1e-9)


def test_caps_give_a_lower_bound_and_say_so() -> None:
    seen = busy(flat(async_scheduling=0, max_num_seqs=1))
    whole = predict_ttft(seen, Probe(10), caps=ReplayCaps(horizon_s=1000.0))
    assert whole.seconds == pytest.approx(98.75)
    assert not whole.is_lower_bound
    late = predict_ttft(seen, Probe(10), caps=ReplayCaps(horizon_s=50.0))
    assert (late.seconds, late.flags, late.is_lower_bound) == (50.0, TtftFlag.TIME_CAP, True)
    long = predict_ttft(seen, Probe(600), caps=ReplayCaps(horizon_s=1000.0, max_steps=98))
    assert long.flags == TtftFlag.STEP_CAP
    assert 97.75 <= long.seconds <= 99.75
    assert predict_ttft(seen, Probe(10), caps=ReplayCaps(98.75 + 1e-9, 99)).flags == 0


def test_preemption_within_the_horizon_is_replayed_and_flagged() -> None:
    # Two requests of 16 tokens fill two of three blocks of 16; both need another for their first decode.
    server = flat(max_model_len=48, kv_blocks=3, async_scheduling=0)
    engine = EngineSim([server], 3)
    engine.submit_many([0, 0], [0.0, 0.0], [16, 16], [4, 4], [4, 4])
    engine.advance(0.5)
    seen = export_snapshot(engine, 0, InstanceProfile.of(server))
    predicted = predict_ttft(seen, Probe(20))
    assert predicted.flags == TtftFlag.PREEMPTION
    slot = engine.submit(0, 0.5, 20, 1, 1)
    engine.drain()
    assert engine.preemptions.tolist() == [0, 1, 0]
    assert predicted.seconds == pytest.approx(engine.first_token_s[slot] - 0.5)


def test_blocks_that_do_not_add_up_are_flagged() -> None:
    seen = busy(flat())
    assert predict_ttft(replace(seen, free_blocks=seen.free_blocks - 5), Probe(5)).flags == (
        TtftFlag.BLOCKS_DISAGREE
    )


def test_a_prediction_leaves_the_snapshot_as_it_was() -> None:
    seen = busy(flat(), requests=5)
    before = [column.copy() for column in (seen.requests, seen.steps, seen.step_start_s)]
    assert predict_ttft(seen, Probe(50), now_s=30.0) == predict_ttft(seen, Probe(50), now_s=30.0)
    for was, column in zip(before, (seen.requests, seen.steps, seen.step_start_s), strict=True):
        assert was.tobytes() == column.tobytes()
    with pytest.raises(ValueError, match="read-only"):
        seen.requests[0, snap.PROMPT] = 3
