"""What holds for any pool, any load and any way to drive the clock."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rbx.config.pool import Tier
from rbx.engine.simulator import EngineSim
from tests.engine.scenes import Workload, random_tier, random_workload

SEEDS = st.integers(0, 2**32 - 1)
Results = tuple[bytes, ...]


def scene(seed: int) -> tuple[list[Tier], Workload]:
    rng = np.random.default_rng(seed)
    exact = bool(rng.random() < 0.5)
    tiers = [random_tier(rng, exact=exact) for _ in range(int(rng.integers(1, 4)))]
    return tiers, random_workload(rng, tiers, int(rng.integers(1, 60)), exact=exact)


def everything(n: int) -> NDArray[np.int64]:
    return np.arange(n)


def results(engine: EngineSim) -> Results:
    engine.advance(engine.clock_s + 1000.0)  # past the steps formed ahead of the last request's end
    columns = (engine.first_scheduled_s, engine.first_token_s, engine.done_s, engine.preemptions)
    return tuple(np.ascontiguousarray(c).tobytes() for c in (*columns, engine.steps, engine.busy_s))


def run(tiers: list[Tier], workload: Workload) -> EngineSim:
    engine = EngineSim(tiers, len(workload.at_s))
    engine.submit_many(*workload.rows(everything(len(workload.at_s))))
    engine.drain()
    return engine


@given(SEEDS, st.lists(st.floats(0.0, 50.0), max_size=30))
@settings(max_examples=200, deadline=None)
def test_stops_on_the_way_change_no_bit(seed: int, stops: list[float]) -> None:
    tiers, workload = scene(seed)
    engine = EngineSim(tiers, len(workload.at_s))
    engine.submit_many(*workload.rows(everything(len(workload.at_s))))
    for stop_s in sorted([*stops, *workload.at_s.tolist()]):
        engine.advance(stop_s)
        engine.telemetry()
    engine.drain()
    assert results(engine) == results(run(tiers, workload))


@given(SEEDS)
@settings(max_examples=200, deadline=None)
def test_a_stop_at_the_end_of_every_step_changes_no_bit(seed: int) -> None:
    tiers, workload = scene(seed)
    whole = run(tiers, workload)
    engine = EngineSim(tiers, len(workload.at_s))
    engine.submit_many(*workload.rows(everything(len(workload.at_s))))
    for stop_s in np.unique(np.concatenate([whole.first_token_s, whole.done_s])):
        engine.advance(float(stop_s))
        assert not np.isnan(engine.done_s[whole.done_s <= stop_s]).any(), "a step that ends now has ended"
    engine.drain()
    assert results(engine) == results(whole)


@given(SEEDS)
@settings(max_examples=200, deadline=None)
def test_submitting_at_the_last_moment_changes_no_bit(seed: int) -> None:
    tiers, workload = scene(seed)
    order = np.argsort(workload.at_s, kind="stable")
    whole = EngineSim(tiers, len(order))
    whole.submit_many(*workload.rows(order))
    whole.drain()
    engine = EngineSim(tiers, len(order))
    for row in order:
        engine.advance(float(workload.at_s[row]))
        engine.submit_many(*workload.rows(np.array([row])))
    engine.drain()
    assert results(engine) == results(whole)


@given(SEEDS)
@settings(max_examples=100, deadline=None)
def test_the_order_of_submission_only_breaks_ties(seed: int) -> None:
    tiers, workload = scene(seed)
    n = len(workload.at_s)
    distinct = replace(workload, at_s=workload.at_s + np.arange(n) * 2.0**-16)
    order = np.random.default_rng(seed).permutation(n)
    straight, shuffled = run(tiers, distinct), EngineSim(tiers, n)
    shuffled.submit_many(*distinct.rows(order))
    shuffled.drain()
    assert np.array_equal(shuffled.done_s, straight.done_s[order])


@given(SEEDS)
@settings(max_examples=200, deadline=None)
def test_everything_that_goes_in_comes_out_in_order(seed: int) -> None:
    tiers, workload = scene(seed)
    engine = run(tiers, workload)
    shortest_s = np.array([t.step_time.b0_s for t in tiers])[workload.instance]
    assert (engine.first_scheduled_s >= workload.at_s).all()
    assert (engine.first_token_s >= engine.first_scheduled_s + shortest_s * (1 - 1e-9)).all()
    least_s = (workload.output - 1) * shortest_s
    assert (engine.done_s - engine.first_token_s >= least_s - 1e-9).all()
    assert np.array_equal(engine.done_s == engine.first_token_s, workload.output == 1)
    seen = engine.telemetry()
    assert seen.received.tolist() == np.bincount(workload.instance, minlength=len(tiers)).tolist()
    assert np.array_equal(seen.free_blocks, seen.total_blocks)
    empty = (seen.running, seen.waiting, seen.pending_prefill_tokens, seen.pending_decode_tokens)
    assert not np.concatenate(empty).any()


@given(SEEDS)
@settings(max_examples=200, deadline=None)
def test_no_instance_outruns_its_limits(seed: int) -> None:
    tiers, workload = scene(seed)
    engine = run(tiers, workload)
    for k, server in enumerate(tiers):
        mine = workload.instance == k
        tokens, prompts = workload.output[mine].sum(), workload.prompt[mine].sum()
        assert tokens <= engine.steps[k] * server.limits.max_num_seqs
        assert tokens - mine.sum() + prompts <= engine.steps[k] * server.limits.max_num_batched_tokens
        assert engine.busy_s[k] >= engine.steps[k] * server.step_time.b0_s * (1 - 1e-9)
        assert engine.busy_s[k] <= engine.clock_s


@given(SEEDS, st.floats(0.0, 5.0))
@settings(max_examples=100, deadline=None)
def test_telemetry_knows_nothing_of_true_lengths(seed: int, horizon_s: float) -> None:
    tiers, workload = scene(seed)
    room = np.array([t.limits.max_model_len for t in tiers])[workload.instance]
    fastest_s = min(t.step_time.b0_s for t in tiers)
    # Only answers that can't end by then: a request's end is for everyone to see.
    beyond = np.flatnonzero(room - workload.prompt > horizon_s / fastest_s + 4)
    assume(len(beyond) > 0)
    chosen = replace(workload, by_length=np.zeros_like(workload.by_length)).rows(beyond)
    longest = room[beyond] - chosen[2]
    least = np.full(len(beyond), int(horizon_s / fastest_s) + 3)
    snapshots = []
    for output in (least, longest - 1):
        engine = EngineSim(tiers, len(beyond))
        engine.submit_many(chosen[0], chosen[1], chosen[2], output, chosen[4], chosen[5])
        engine.advance(horizon_s)
        snapshots.append(engine.telemetry())
    first, second = snapshots
    for name in (field.name for field in fields(first)):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name
