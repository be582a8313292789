"""A schedule sent by one event loop: open loop, on absolute times."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from rbx.config.live import LoadClient
from rbx.label.redaction import Redaction
from rbx.load.client.connection import Connection
from rbx.load.client.connections import Connections
from rbx.load.client.exchange import Exchange, result
from rbx.load.client.origin import Origin
from rbx.load.client.result import LoadFaultKind, LoadResult, not_sent
from rbx.load.client.wire import Wire

SENDS_AT_ONCE = 64  # then reads get their turn, or a burst would make their stamps late


class Sending:
    """Sends ``wires``, sorted by time, and tells each one's result to ``sink``.

    Nothing that a server does delays a later request, but for the bound on connections: a request that
    finds none waits for one, first come first served, and is late by that.
    """

    def __init__(
        self,
        wires: Sequence[Wire],
        origin: Origin,
        client: LoadClient,
        drain_s: float,
        sink: Callable[[LoadResult], None],
        *,
        redaction: Redaction,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock`` is the one that ``run`` gets its start of; it does not go back."""
        self._wires = wires
        self._client = client
        self._drain_s = drain_s
        self._sink = sink
        self._redaction = redaction
        self._clock = clock
        self._connections = Connections(
            origin, client.max_connections, client.connect_s, clock, self._serve_waiting
        )
        self._next = 0
        self._start_s = 0.0
        self._waiting: deque[Wire] = deque()
        self._under_way: dict[int, Exchange] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._all_ended = asyncio.Event()
        self.sent = 0
        self.first_sent_s = self.last_sent_s = 0.0
        self.delays_s: list[float] = []

    @property
    def waiting(self) -> int:
        """Requests that are due and have no connection."""
        return len(self._waiting)

    @property
    def in_flight(self) -> list[Exchange]:
        """Requests under way."""
        return list(self._under_way.values())

    async def run(self, start_s: float) -> None:
        """Send all, each at ``start_s`` plus its own time; returns when each has its result."""
        self._start_s = start_s
        if self._wires:
            self._pace()
            await self._all_ended.wait()
        self._wait_no_more()
        await self._connections.close()

    def stop(self) -> None:
        """Send nothing more, and give up what is in flight."""
        self._end_all("stopped", "the run was stopped")

    def _pace(self) -> None:
        wires, total = self._wires, len(self._wires)
        for _ in range(SENDS_AT_ONCE):
            if self._next >= total or self._after_start_s() < wires[self._next].scheduled_s:
                break
            self._waiting.append(wires[self._next])
            self._next += 1
            self._serve_waiting()
        if self._next < total:
            self._at(wires[self._next].scheduled_s, self._pace)
        elif not self._all_ended.is_set():
            self._at(wires[-1].scheduled_s + self._drain_s, self._drain_over)

    def _drain_over(self) -> None:
        end_s = self._wires[-1].scheduled_s + self._drain_s
        if self._after_start_s() < end_s:
            self._at(end_s, self._drain_over)
        else:
            self._end_all("drain", f"not done {self._drain_s:g} s after the last request was due")

    def _at(self, after_start_s: float, call: Callable[[], None]) -> None:
        # Loops round timers to milliseconds: who is called too early asks again.
        in_s = max(0.0, after_start_s - self._after_start_s())
        self._timer = asyncio.get_running_loop().call_later(in_s, call)

    def _after_start_s(self) -> float:
        return self._clock() - self._start_s

    def _wait_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_all(self, fault: LoadFaultKind, detail: str) -> None:
        self._wait_no_more()
        now_s = self._after_start_s()
        self.delays_s += [now_s - wire.scheduled_s for wire in self._waiting]  # at least
        left = [*self._waiting, *self._wires[self._next :]]
        self._waiting.clear()
        self._next = len(self._wires)
        for wire in left:
            self._sink(not_sent(wire.request, wire.scheduled_s, fault))
        for exchange in self.in_flight:
            exchange.give_up(fault, detail)
        self._all_ended.set()

    def _serve_waiting(self) -> None:
        """Send what waits as far as there are connections."""
        while self._waiting:
            connection = self._connections.take()
            if connection is not None:
                self._begin(self._waiting.popleft()).start(connection)
            elif not self._connections.full:
                exchange = self._begin(self._waiting.popleft())
                exchange.opening = self._connections.open(partial(self._opened, exchange))
            else:
                return

    def _begin(self, wire: Wire) -> Exchange:
        now_s = self._clock()
        exchange = Exchange(wire, now_s, self._client, self._clock, self._done)
        self._under_way[wire.request] = exchange
        self.sent += 1
        self.first_sent_s = self.first_sent_s if self.sent > 1 else now_s
        self.last_sent_s = now_s
        self.delays_s.append(now_s - self._start_s - wire.scheduled_s)
        return exchange

    def _opened(self, exchange: Exchange, opened: Connection | BaseException) -> None:
        exchange.opening = None
        if isinstance(opened, Connection):
            if exchange.answer.over:
                opened.abort()
            else:
                exchange.start(opened)
        elif isinstance(opened, asyncio.TimeoutError):  # another type than TimeoutError before Python 3.11
            exchange.give_up("connect_timeout", f"no connection within {self._client.connect_s:g} s")
        else:
            exchange.give_up("refused", str(opened) or type(opened).__name__)

    def _done(self, exchange: Exchange) -> None:
        del self._under_way[exchange.wire.request]
        if exchange.opening is not None:
            exchange.opening.cancel()
        self._sink(result(exchange, self._start_s, self._redaction))
        if not self._under_way and not self._waiting and self._next >= len(self._wires):
            self._all_ended.set()
