"""One simulated instance that keeps pace with the event loop's clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from rbx.config.pool import Tier
from rbx.engine.simulator import EngineSim
from rbx.engine.telemetry import PoolTelemetry
from rbx.serve.mock.tally import Tally
from rbx.serve.mock.ticket import Ticket

_CAPACITY = 512  # least number of slots; unfinished requests take a quarter at most after a renewal
_TIMER_S = 1e-3  # what uvloop's timers are rounded to, up or down


class Timer(Protocol):
    """A call to come."""

    def cancel(self) -> None:
        """Let it not come."""


class Clock(Protocol):
    """What is used of an event loop."""

    def time(self) -> float:
        """Seconds of a clock that never goes back."""

    def call_soon(self, callback: Callable[[], None]) -> Timer:
        """Call once the present work is done."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call after ``delay`` seconds."""


def compile_kernels(tier: Tier) -> None:
    """Run every kernel once: compiling them takes half a minute the first time, too long within a request."""
    engine = EngineSim([tier], 2)
    done, aborted = (engine.submit(0, 0.0, 1, 1, 1) for _ in range(2))
    engine.advance(0.0)
    engine.abort(aborted)
    engine.advance(1e-9)
    engine.output_tokens([done])
    engine.telemetry()


class PacedEngine:
    """``EngineSim`` of one instance, advanced whenever a step of it ends in real time.

    ``rate`` virtual seconds pass in a real one; at 0 the engine stands still. To be used within one
    event loop only.
    """

    def __init__(self, tier: Tier, rate: float, loop: Clock) -> None:
        """Idle, at virtual time 0."""
        self.tier = tier
        self.tally = Tally()
        self._loop, self._rate = loop, rate
        self._engine = EngineSim([tier], _CAPACITY)
        self._tickets: list[Ticket | None] = []  # by slot
        self._given = np.zeros(_CAPACITY, dtype=np.int64)  # tokens by slot
        self._every_slot = np.arange(_CAPACITY)
        self._anchor_s, self._virtual_anchor_s = loop.time(), 0.0
        self._timer: Timer | None = None
        self._due_s = math.inf  # virtual time that the timer is for

    def submit(self, prompt_tokens: int, output_tokens: int, cap_tokens: int, by_length: bool) -> Ticket:
        """Let a request arrive now; raises ``EngineError`` for one that does not fit the instance."""
        self.catch_up()
        if len(self._tickets) == len(self._given):
            self._renew()
        now_s = self._engine.clock_s
        row = ([0], [now_s], [prompt_tokens], [output_tokens], [cap_tokens], [by_length], [cap_tokens])
        slot = int(self._engine.submit_many(*row)[0])
        ticket = Ticket(slot, prompt_tokens, output_tokens, by_length, self._loop.time())
        self._tickets.append(ticket)
        self._given[slot] = 0
        self._arm()
        return ticket

    def abort(self, ticket: Ticket) -> None:
        """Take a request out; one that has ended stays as it is."""
        if ticket.left or ticket.tokens == ticket.output_tokens:
            return
        self.catch_up()
        if ticket.tokens < ticket.output_tokens:
            self._engine.abort(ticket.slot)
            self._tickets[ticket.slot] = None
            self.tally.ended(ticket, "abort", int(self._engine.preemptions[ticket.slot]), self._loop.time())
            ticket.leave()
            self._arm()

    def abort_all(self) -> None:
        """Take every request out."""
        for ticket in [ticket for ticket in self._tickets if ticket is not None]:
            self.abort(ticket)

    def set_rate(self, rate: float) -> None:
        """From now on ``rate`` virtual seconds pass in a real one."""
        self.catch_up()
        self._anchor_s, self._virtual_anchor_s = self._loop.time(), self._engine.clock_s
        self._rate = rate
        self._arm()

    def telemetry(self) -> PoolTelemetry:
        """The instance now; every array has one entry."""
        self.catch_up()
        return self._engine.telemetry()

    def preemptions(self) -> int:
        """Preemptions of all requests so far."""
        held = sum(
            int(self._engine.preemptions[ticket.slot]) for ticket in self._tickets if ticket is not None
        )
        return self.tally.preemptions + held

    def close(self) -> None:
        """End all requests and stop the timer."""
        self.abort_all()
        if self._timer is not None:
            self._timer.cancel()

    def catch_up(self) -> None:
        """Bring the engine to the present and hand out the tokens of the steps that have ended."""
        now_s = self._virtual_anchor_s + (self._loop.time() - self._anchor_s) * self._rate
        if self._rate > 0.0 and now_s >= self._due_s:
            self.tally.lag.note((now_s - self._due_s) / self._rate, self._loop.time())
        self._engine.advance(max(now_s, self._engine.clock_s))
        held = len(self._tickets)
        tokens = self._engine.output_tokens(self._every_slot[:held])
        for slot in np.flatnonzero(tokens > self._given[:held]).tolist():
            ticket = self._tickets[slot]
            if ticket is not None:
                self._hand_out(ticket, slot, int(tokens[slot]))
        self._given[:held] = tokens
        self._arm()

    def _hand_out(self, ticket: Ticket, slot: int, tokens: int) -> None:
        self.tally.delivered(ticket, tokens, self._loop.time())
        ticket.give(tokens)
        if tokens == ticket.output_tokens:
            self._tickets[slot] = None
            preemptions = int(self._engine.preemptions[slot])
            self.tally.ended(ticket, ticket.finish_reason, preemptions, self._loop.time())

    def _arm(self) -> None:
        due_s = self._engine.next_boundary_s
        if self._timer is not None:
            if due_s == self._due_s:
                return
            self._timer.cancel()
            self._timer = None
        self._due_s = due_s
        if due_s == math.inf or self._rate == 0.0:
            return
        at_s = self._anchor_s + (due_s - self._virtual_anchor_s) / self._rate
        delay_s = at_s - self._loop.time()
        if delay_s <= 0.0:
            self._timer = self._loop.call_soon(self._run)
        else:
            self._timer = self._loop.call_later(math.ceil(delay_s / _TIMER_S) * _TIMER_S, self._run)

    def _run(self) -> None:
        self._timer = None
        self.catch_up()

    def _renew(self) -> None:
        unfinished = sum(ticket is not None for ticket in self._tickets)
        capacity = max(_CAPACITY, 4 * unfinished)
        kept = self._engine.renew(capacity)
        given = np.zeros(capacity, dtype=np.int64)
        given[: len(kept)] = self._given[kept]
        self._given, self._every_slot = given, np.arange(capacity)
        self._tickets = [self._tickets[slot] for slot in kept.tolist()]
        for slot, ticket in enumerate(self._tickets):
            if ticket is not None:
                ticket.slot = slot
