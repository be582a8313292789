"""When prompts are scored ahead of their batch, against an event-by-event simulation and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.config.deployment import Concurrent, Microbatch, ScoringQueue, Serial, Sidecar
from rbx.scheduler.scoring_stage import ScoredArrivals, fastest_per_s, score_arrivals
from rbx.scheduler.scoring_times import ScoringTimes

PADDED = ScoringTimes(0.04, 0.001, 1e-4, 256, padded=True)
UNPADDED = ScoringTimes(0.0, 0.002, 1e-4, 256)

queues = st.builds(
    ScoringQueue,
    workers=st.integers(1, 5),
    max_size=st.integers(1, 9),
    window_s=st.sampled_from([0.0, 0.01, 0.3]),
    rpc_s=st.sampled_from([0.0, 0.002]),
)


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    seed, n = draw(st.integers(0, 10_000)), draw(st.integers(1, 60))
    rng = np.random.default_rng(seed)
    gap_s = draw(st.sampled_from([0.0, 0.01, 0.05, 0.5]))
    arrived_s = np.cumsum(rng.exponential(gap_s, n)) if gap_s else np.zeros(n)
    return arrived_s, rng.integers(1, 600, n)


def by_events(
    arrived_s: np.ndarray, tokens: np.ndarray, queue: ScoringQueue, times: ScoringTimes
) -> tuple[np.ndarray, np.ndarray]:
    """Processes that wait for each other, with the rule read step by step: began and back, (N,) each."""
    env = simpy.Environment()
    waiting: list[int] = []
    asked_s = arrived_s + queue.rpc_s / 2
    n = len(arrived_s)
    began_s, back_s = np.full(n, np.nan), np.full(n, np.nan)
    wake = [env.event()]
    idle = [queue.workers]

    def ring() -> None:
        wake[0].succeed()
        wake[0] = env.event()

    def arrive() -> simpy.events.ProcessGenerator:
        for at_s in np.unique(asked_s):
            yield env.timeout(at_s - env.now)
            waiting.extend(np.flatnonzero(asked_s == at_s).tolist())
            ring()

    def work(taken: list[int]) -> simpy.events.ProcessGenerator:
        began_s[taken] = env.now
        yield env.timeout(times.call_s(tokens[taken]))
        back_s[taken] = env.now + queue.rpc_s / 2
        idle[0] += 1
        ring()

    def hand_out() -> simpy.events.ProcessGenerator:
        while True:
            # Whoever comes at this very moment is there before a call begins.
            yield env.timeout(0)
            yield env.timeout(0)
            due_s = asked_s[waiting[0]] + queue.window_s if waiting else np.inf
            if idle[0] and waiting and (len(waiting) >= queue.max_size or env.now >= due_s - 1e-12):
                taken = waiting[: queue.max_size]
                del waiting[: queue.max_size]
                idle[0] -= 1
                env.process(work(taken))
                continue
            woken = wake[0]
            if idle[0] and waiting:
                yield woken | env.timeout(due_s - env.now)
            else:
                yield woken

    env.process(arrive())
    env.process(hand_out())
    env.run(until=1e6)
    return began_s, back_s


@settings(max_examples=150, deadline=None)
@given(drawn=arrivals(), queue=queues, times=st.sampled_from([PADDED, UNPADDED]))
def test_it_is_what_happens_event_by_event(
    drawn: tuple[np.ndarray, np.ndarray], queue: ScoringQueue, times: ScoringTimes
) -> None:
    found = score_arrivals(*drawn, queue, times)
    began_s, back_s = by_events(*drawn, queue, times)
    assert found.began_s == pytest.approx(began_s, abs=1e-9)
    assert found.back_s == pytest.approx(back_s, abs=1e-9)


@settings(max_examples=150, deadline=None)
@given(drawn=arrivals(), queue=queues, times=st.sampled_from([PADDED, UNPADDED]))
def test_first_come_first_served_by_workers_that_do_not_idle(
    drawn: tuple[np.ndarray, np.ndarray], queue: ScoringQueue, times: ScoringTimes
) -> None:
    arrived_s, tokens = drawn
    found = score_arrivals(arrived_s, tokens, queue, times)
    calls = _calls(found)
    assert np.concatenate(calls).tolist() == list(range(len(arrived_s)))  # everyone once, in order
    assert max(len(call) for call in calls) <= queue.max_size
    began_s = np.array([found.began_s[call[0]] for call in calls])
    done_s = np.array([found.back_s[call[0]] - queue.rpc_s / 2 for call in calls])
    assert (np.diff(began_s) >= 0).all()
    assert (found.began_s >= arrived_s + queue.rpc_s / 2).all()
    for call, at_s, end_s in zip(calls, began_s, done_s, strict=True):
        assert end_s - at_s == pytest.approx(times.call_s(tokens[call]))
        busy = np.sum((began_s <= at_s) & (done_s > at_s))
        assert busy <= queue.workers
        # Nobody waits beyond the window while a worker is free: just before a late call all were at work.
        asked_s = arrived_s[call] + queue.rpc_s / 2
        full = len(call) == queue.max_size
        due_s = min(asked_s[-1] if full else np.inf, asked_s[0] + queue.window_s)
        if at_s > due_s + 1e-9:
            assert np.sum((began_s < at_s - 1e-9) & (done_s >= at_s - 1e-9)) == queue.workers


@given(drawn=arrivals())
def test_one_worker_and_one_prompt_a_call_are_lindleys_recursion(
    drawn: tuple[np.ndarray, np.ndarray],
) -> None:
    arrived_s, tokens = drawn
    queue = Serial().queue
    found = score_arrivals(arrived_s, tokens, queue, UNPADDED)
    service_s = 0.002 + 1e-4 * np.minimum(tokens, 256)
    wait_s = 0.0
    for k in range(len(arrived_s)):
        if k:
            wait_s = max(0.0, wait_s + service_s[k - 1] - (arrived_s[k] - arrived_s[k - 1]))
        assert found.began_s[k] - arrived_s[k] == pytest.approx(wait_s, abs=1e-9)
    assert found.order.tolist() == list(range(len(arrived_s)))


def test_a_deterministic_server_under_poisson_arrivals_waits_as_pollaczek_and_khinchine_say() -> None:
    rng = np.random.default_rng(1)
    arrived_s = np.cumsum(rng.exponential(1 / 8.0, 150_000))
    found = score_arrivals(arrived_s, np.full(150_000, 100), Serial().queue, ScoringTimes(0.1, 0.0, 0.0, 1))
    load = 0.8
    assert (found.began_s - arrived_s).mean() == pytest.approx(load / (2 * (1 - load)) * 0.1, rel=0.05)


def test_many_workers_let_a_short_prompt_overtake_a_long_one() -> None:
    times = ScoringTimes(0.0, 0.0, 0.001, 1000)
    found = score_arrivals(np.array([0.0, 0.1]), np.array([900, 10]), Concurrent(workers=2).queue, times)
    assert found.order.tolist() == [1, 0]
    assert found.back_s == pytest.approx([0.9, 0.11])


def test_a_padded_call_costs_its_size_times_its_longest_prompt() -> None:
    arrived_s, tokens = np.array([0.0, 0.001, 0.002, 0.5]), np.array([10, 200, 30, 40])
    found = score_arrivals(arrived_s, tokens, Microbatch(max_size=8, window_s=0.01).queue, PADDED)
    assert found.call.tolist() == [0, 0, 0, 1]
    assert found.began_s == pytest.approx([0.01, 0.01, 0.01, 0.51])
    assert found.back_s[0] == pytest.approx(0.01 + 0.04 + 3 * 0.001 + 3 * 200 * 1e-4)


def test_a_sidecar_is_a_microbatch_with_a_way_to_go() -> None:
    rng = np.random.default_rng(3)
    arrived_s, tokens = np.cumsum(rng.exponential(0.01, 300)), rng.integers(1, 300, 300)
    here = score_arrivals(arrived_s, tokens, Microbatch().queue, PADDED)
    there = score_arrivals(arrived_s, tokens, Sidecar(rpc_s=0.01).queue, PADDED)
    assert there.call.tolist() == here.call.tolist()
    assert there.back_s - here.back_s == pytest.approx(np.full(300, 0.01))
    assert there.began_s - here.began_s == pytest.approx(np.full(300, 0.005))


@pytest.mark.parametrize("queue", [Serial().queue, Microbatch(max_size=4).queue, Concurrent(workers=3).queue])
def test_more_than_it_can_take_piles_up_and_less_does_not(queue: ScoringQueue) -> None:
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, 300, 4000)
    fastest = fastest_per_s(tokens, queue, PADDED)

    def last_wait_s(rate_per_s: float) -> float:
        arrived_s = np.arange(4000) / rate_per_s
        return float((score_arrivals(arrived_s, tokens, queue, PADDED).began_s - arrived_s)[-100:].mean())

    assert last_wait_s(1.1 * fastest) == pytest.approx(4000 / fastest * (1 - 1 / 1.1), rel=0.1)
    assert last_wait_s(0.9 * fastest) < 20 / fastest


def _calls(found: ScoredArrivals) -> list[np.ndarray]:
    edges = np.flatnonzero(np.diff(found.call)) + 1
    return np.split(np.arange(len(found.call)), edges)
