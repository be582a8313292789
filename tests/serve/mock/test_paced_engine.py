"""The engine keeps the clock's pace: on a clock that the test moves, tokens come when the simulator says."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.engine.simulator import EngineSim
from rbx.errors import EngineError
from rbx.serve.mock.paced_engine import PacedEngine
from rbx.serve.mock.ticket import Ticket
from tests.engine.scenes import random_tier
from tests.serve.mock.pools import small_tier

SEEDS = st.integers(0, 2**32 - 1)
TIMER_S = 1.001e-3  # timers have whole milliseconds


@dataclass
class Call:
    run: Callable[[], None] | None

    def cancel(self) -> None:
        self.run = None


@dataclass
class HandClock:
    """Time passes only in ``pass_until``."""

    now_s: float = 0.0
    due: list[tuple[float, int, Call]] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def time(self) -> float:
        return self.now_s

    def call_soon(self, callback: Callable[[], None]) -> Call:
        return self.call_later(1e-7, callback)

    def call_later(self, delay: float, callback: Callable[[], None]) -> Call:
        call = Call(callback)
        heapq.heappush(self.due, (self.now_s + delay, next(self.numbers), call))
        return call

    def pass_until(self, end_s: float, then: Callable[[], None] = lambda: None) -> None:
        """Make the calls that are due, each at its time; ``then`` after each of them."""
        while self.due and self.due[0][0] <= end_s:
            at_s, _, call = heapq.heappop(self.due)
            self.now_s = max(self.now_s, at_s)
            if call.run is not None:
                call.run()
                then()
        self.now_s = end_s


@dataclass
class Watched:
    """When each token of a request was there."""

    ticket: Ticket
    token_s: list[float] = field(default_factory=list)

    def look(self, now_s: float) -> None:
        self.token_s += [now_s] * (self.ticket.tokens - len(self.token_s))


@given(SEEDS, st.sampled_from([0.25, 1.0, 8.0]))
@settings(max_examples=100, deadline=None)
def test_tokens_come_when_the_simulator_says(seed: int, rate: float) -> None:
    rng = np.random.default_rng(seed)
    server = random_tier(rng, exact=False)
    clock = HandClock(now_s=100.0)
    paced = PacedEngine(server, rate, clock)
    plain = EngineSim([server], 40)
    watched: list[Watched] = []

    def look() -> None:
        for each in watched:
            each.look(clock.now_s)

    for gap_s in rng.exponential(0.1, 40).tolist():
        clock.pass_until(clock.now_s + gap_s / rate, look)
        prompt = int(rng.integers(1, server.limits.max_model_len - 4))
        output = int(rng.integers(1, min(30, server.limits.max_model_len - prompt) + 1))
        by_length = bool(rng.random() < 0.5)
        cap = output if by_length else server.limits.max_model_len - prompt
        watched.append(Watched(paced.submit(prompt, output, cap, by_length)))
        plain.submit_many([0], [(clock.now_s - 100.0) * rate], [prompt], [output], [cap], [by_length], [cap])
        look()
    clock.pass_until(clock.now_s + 10_000.0 / rate, look)
    plain.drain()
    assert [len(each.token_s) for each in watched] == [each.ticket.output_tokens for each in watched]
    first_s = (np.array([each.token_s[0] for each in watched]) - 100.0) * rate
    last_s = (np.array([each.token_s[-1] for each in watched]) - 100.0) * rate
    for seen_s, true_s in ((first_s, plain.first_token_s), (last_s, plain.done_s)):
        late_s = (seen_s - true_s) / rate
        assert late_s.min() >= -1e-6
        assert late_s.max() <= TIMER_S
    assert paced.tally.generation_tokens == sum(each.ticket.output_tokens for each in watched)
    assert paced.preemptions() == int(plain.preemptions.sum())


def test_each_step_gives_each_request_a_token() -> None:
    clock = HandClock()
    paced = PacedEngine(small_tier(), 1.0, clock)
    watched = Watched(paced.submit(20, 50, 50, True))
    clock.pass_until(2.0, lambda: watched.look(clock.now_s))
    gaps_s = np.diff(watched.token_s)
    assert len(gaps_s) == 49
    assert watched.token_s[0] == pytest.approx(
        0.030, abs=TIMER_S
    )  # 10 ms and one for each token of the prompt
    assert np.abs(gaps_s - 0.010).max() <= TIMER_S
    assert clock.due == [], "an idle engine waits for nothing"


def test_requests_without_end_need_no_memory_without_end() -> None:
    clock = HandClock()
    paced = PacedEngine(small_tier(), 1.0, clock)
    tickets = [paced.submit(1, 400, 400, True)]
    for _ in range(3000):
        tickets.append(paced.submit(1, 2, 2, True))
        clock.pass_until(clock.now_s + 0.012)
        assert len(paced._given) == 512
    clock.pass_until(clock.now_s + 20.0)
    assert all(ticket.tokens == ticket.output_tokens for ticket in tickets)
    assert paced.tally.finished == {"length": 3001}


def test_more_waiting_than_slots_makes_room() -> None:
    clock = HandClock()
    paced = PacedEngine(small_tier(), 1.0, clock)
    tickets = [paced.submit(1, 3, 3, True) for _ in range(5000)]
    assert int(paced.telemetry().waiting[0]) == 5000
    clock.pass_until(60.0)
    assert [ticket.tokens for ticket in tickets] == [3] * 5000


def test_an_abort_frees_at_once_and_wakes_the_one_who_waits() -> None:
    clock = HandClock()
    paced = PacedEngine(small_tier(max_num_seqs=1), 1.0, clock)
    running, waiting, last = (paced.submit(10, 100, 100, True) for _ in range(3))
    clock.pass_until(0.505)
    assert (running.tokens, waiting.tokens) == (49, 0)
    paced.abort(waiting)
    paced.abort(running)
    paced.abort(running)
    seen = paced.telemetry()
    assert (int(seen.running[0]), int(seen.waiting[0])) == (0, 1)
    clock.pass_until(3.0)
    assert (running.tokens, waiting.tokens, last.tokens) == (49, 0, 100)
    assert paced.tally.finished == {"abort": 2, "length": 1}
    paced.abort(last)
    assert not last.left, "what has ended is not aborted"


def test_a_changed_rate_holds_from_then_on_and_zero_stands_still() -> None:
    clock = HandClock()
    paced = PacedEngine(small_tier(), 1.0, clock)
    ticket = paced.submit(10, 1000, 1000, True)
    clock.pass_until(1.005)
    at_one = ticket.tokens
    paced.set_rate(0.1)
    clock.pass_until(2.0)
    assert at_one == 99
    assert ticket.tokens - at_one == pytest.approx(10, abs=1)
    paced.set_rate(0.0)
    clock.pass_until(50.0)
    frozen = ticket.tokens
    newcomer = paced.submit(10, 5, 5, True)
    clock.pass_until(60.0)
    assert (ticket.tokens, newcomer.tokens) == (frozen, 0)
    assert int(paced.telemetry().waiting[0]) == 1
    paced.set_rate(10.0)
    clock.pass_until(61.0)
    assert newcomer.tokens == 5
    assert ticket.tokens == 1000


def test_a_loop_that_comes_late_hands_out_all_and_says_how_late_it_was() -> None:
    clock = HandClock()
    paced = PacedEngine(small_tier(), 2.0, clock)
    ticket = paced.submit(10, 100, 100, True)
    clock.pass_until(0.1)
    before = ticket.tokens
    clock.now_s = 0.35  # a quarter of a second in which the loop did not turn
    clock.pass_until(0.36)
    assert ticket.tokens - before == pytest.approx(52, abs=1)
    assert paced.tally.lag.worst_s(clock.now_s) == pytest.approx(0.25, abs=0.006)
    clock.pass_until(30.0)
    assert paced.tally.lag.worst_s(60.0) == 0.0, "that was long ago"


def test_what_does_not_fit_is_refused_and_leaves_nothing() -> None:
    clock = HandClock()
    paced = PacedEngine(small_tier(), 1.0, clock)
    with pytest.raises(EngineError, match="max_model_len"):
        paced.submit(4096, 1, 1, True)
    assert (paced.telemetry().received.tolist(), paced.preemptions()) == ([0], 0)
    assert math.isinf(paced._engine.next_boundary_s)
