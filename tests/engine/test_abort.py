"""Requests taken out before their end, slots given back, and tokens counted on the way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator

from rbx.engine.simulator import EngineSim
from rbx.engine.state import Floats
from rbx.errors import EngineError
from tests.engine.scenes import Pair, Workload, random_tier, random_workload, tier

SCENES, BLOCKS = 1200, 4
SEEDS = st.integers(0, 2**32 - 1)


def play(pair: Pair, workload: Workload, rng: Generator) -> int:
    """Stop often, abort some requests at each stop, compare everything; returns how many were aborted."""
    pair.submit(workload.rows(np.arange(len(workload.at_s))))
    aborted = 0
    moments = np.concatenate([rng.uniform(0.0, workload.at_s.max() + 2.0, 12), rng.choice(workload.at_s, 4)])
    for now_s in np.sort(moments):
        pair.advance(float(now_s))
        for request in rng.choice(len(pair.requests), min(3, len(pair.requests)), replace=False).tolist():
            aborted += abort(pair, request)
        pair.assert_same_state()
        assert_same_progress(pair)
    pair.drain()
    return aborted


def abort(pair: Pair, slot: int) -> bool:
    request = pair.requests[slot]
    home = int(pair.engine.state.slots[slot, 0])
    expected = pair.instances[home].abort(request)
    assert pair.engine.abort(slot) == expected
    return expected


def assert_same_progress(pair: Pair) -> None:
    going = [request.slot for request in pair.requests if not request.aborted]
    generated = [pair.requests[slot].generated for slot in going]
    assert pair.engine.output_tokens(going).tolist() == generated
    expected_s = min(instance.next_boundary_s() for instance in pair.instances)
    due_s = pair.engine.next_boundary_s
    # A due batch that would be empty is forgotten at once; the plain reading tries it first.
    assert due_s == pytest.approx(expected_s, rel=1e-9) or expected_s <= pair.engine.clock_s < due_s


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("exact", [True, False], ids=["exact-times", "rounded-times"])
def test_aborts_are_those_of_the_plain_reading(exact: bool, block: int) -> None:
    preempted = aborted = finished = 0
    for seed in range(block, SCENES // 2, BLOCKS):
        rng = np.random.default_rng([seed, exact, 7])
        tiers = [random_tier(rng, exact=exact) for _ in range(int(rng.integers(1, 4)))]
        workload = random_workload(rng, tiers, int(rng.integers(1, 40)), exact=exact)
        pair = Pair(tiers, len(workload.at_s), rtol=0.0 if exact else 1e-9)
        aborted += play(pair, workload, rng)
        pair.assert_same_results()
        gone = np.array([request.aborted for request in pair.requests])
        assert np.array_equal(np.isnan(pair.engine.done_s), gone)
        pair.advance(pair.engine.clock_s + 1000.0)
        seen = pair.engine.telemetry()
        assert np.array_equal(seen.free_blocks, seen.total_blocks)
        assert not np.concatenate([seen.running, seen.waiting, seen.pending_prefill_tokens]).any()
        assert np.isfinite(pair.engine.busy_s).all()
        finished += int((~gone).sum())
        preempted += int(pair.engine.preemptions.sum())
    assert aborted > 300
    assert finished > 300
    assert preempted > 20, "the scenes no longer reach preemption"


def test_a_running_request_frees_its_seat_for_the_next_batch() -> None:
    engine = EngineSim([tier(max_num_seqs=1, async_scheduling=0)], 2)
    first, second = (engine.submit(0, 0.0, 10, 100, 100) for _ in range(2))
    engine.advance(0.055)
    end_s = engine.next_boundary_s
    assert engine.abort(first)
    assert not engine.abort(first), "it has ended"
    engine.drain()
    assert engine.first_scheduled_s[second] == end_s
    assert math.isnan(engine.done_s[first])
    assert engine.telemetry().received.tolist() == [2]


def test_the_only_request_of_an_idle_instance_leaves_no_trace() -> None:
    engine = EngineSim([tier()], 2)
    engine.submit(0, 1.0, 10, 5, 5)
    engine.advance(1.0)
    assert engine.telemetry().waiting.tolist() == [1]
    engine.abort(0)
    engine.advance(5.0)
    assert (engine.steps.tolist(), engine.busy_s.tolist(), engine.next_boundary_s) == ([0], [0.0], math.inf)
    later = engine.submit(0, 6.0, 10, 5, 5)
    engine.drain()
    assert engine.first_scheduled_s[later] == 6.0


def test_slots_that_were_never_given_are_refused() -> None:
    engine = EngineSim([tier()], 4)
    engine.submit(0, 0.0, 10, 5, 5)
    for slot in (-1, 1, 4):
        with pytest.raises(EngineError, match=f"slot {slot} was never given"):
            engine.abort(slot)
        with pytest.raises(EngineError, match=f"slot {slot} was never given"):
            engine.output_tokens([0, slot])


@given(SEEDS)
@settings(max_examples=150, deadline=None)
def test_a_renewed_engine_goes_on_as_if_nothing_had_happened(seed: int) -> None:
    rng = np.random.default_rng(seed)
    exact = bool(rng.random() < 0.5)
    tiers = [random_tier(rng, exact=exact) for _ in range(int(rng.integers(1, 4)))]
    workload = random_workload(rng, tiers, int(rng.integers(2, 60)), exact=exact)
    order = np.argsort(workload.at_s, kind="stable")
    whole = EngineSim(tiers, len(order))
    whole.submit_many(*workload.rows(order))
    whole.drain()

    engine = EngineSim(tiers, 1)
    place: dict[int, int] = {}  # slot now → slot in the other one
    done_s = np.full(len(order), np.nan)
    for n, row in enumerate(order.tolist()):
        engine.advance(float(workload.at_s[row]))
        if len(place) == len(engine.state.slots) or rng.random() < 0.3:
            collect(engine, place, done_s)
            before = engine.telemetry()
            going = [slot for slot in place if np.isnan(engine.done_s[slot])]
            kept = engine.renew(len(going) + int(rng.integers(1, 4)))
            assert kept.tolist() == sorted(going)
            place = {new: place[old] for new, old in enumerate(kept.tolist())}
            after = engine.telemetry()
            assert {name: column.tolist() for name, column in vars(before).items()} == {
                name: column.tolist() for name, column in vars(after).items()
            }
        place[int(engine.submit_many(*workload.rows(np.array([row])))[0])] = n
    engine.drain()
    collect(engine, place, done_s)
    assert done_s.tolist() == whole.done_s.tolist()


def collect(engine: EngineSim, place: dict[int, int], done_s: Floats) -> None:
    for slot, original in place.items():
        if not np.isnan(engine.done_s[slot]):
            done_s[original] = engine.done_s[slot]


def test_a_renewal_must_hold_what_is_unfinished() -> None:
    engine = EngineSim([tier()], 3)
    for _ in range(3):
        engine.submit(0, 0.0, 10, 50, 50)
    engine.advance(0.1)
    with pytest.raises(EngineError, match="3 requests are unfinished; a capacity of 2"):
        engine.renew(2)
    assert engine.renew(3).tolist() == [0, 1, 2]
