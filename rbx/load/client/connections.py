"""The connections of one client process: bounded in number, used again while fresh."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from functools import partial

from rbx.load.client.connection import Connection
from rbx.load.client.origin import Origin

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    from async_timeout import timeout

# Uvicorn, and so vLLM, closes a connection that was idle for 5 s; a request sent just then would be lost.
KEEP_ALIVE_S = 4.0


class Connections:
    """At most ``most`` connections to one origin; ``when_free`` is called when a place or one gets free."""

    def __init__(
        self,
        origin: Origin,
        most: int,
        connect_s: float,
        clock: Callable[[], float],
        when_free: Callable[[], None],
    ) -> None:
        """``connect_s`` bounds the opening of one."""
        self._origin = origin
        self._most = most
        self._connect_s = connect_s
        self._clock = clock
        self._when_free = when_free
        self._live: set[Connection] = set()
        self._idle: deque[Connection] = deque()
        self._opening = 0
        self._tasks: set[asyncio.Task[Connection]] = set()

    @property
    def full(self) -> bool:
        """Whether no further one may be opened."""
        return len(self._live) + self._opening >= self._most

    def take(self) -> Connection | None:
        """One that is free: the one that was used last, so that others grow old and are closed."""
        now_s = self._clock()
        while self._idle and _stale(self._idle[0], now_s):
            self._idle.popleft().abort()
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and not _stale(connection, now_s):
                return connection
            connection.abort()
        return None

    def open(self, then: Callable[[Connection | BaseException], None]) -> asyncio.Task[Connection]:
        """Open a new one, whose place is taken at once, and call ``then`` with it or with why there is none.

        That is an ``asyncio.TimeoutError`` where it took too long. Cancelled it calls nothing.
        """
        self._opening += 1
        task = asyncio.get_running_loop().create_task(self._opened())
        self._tasks.add(task)
        task.add_done_callback(partial(self._tell, then))
        return task

    async def close(self) -> None:
        """Close all."""
        for task in self._tasks:
            task.cancel()
        for connection in list(self._live):
            connection.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # those that were closed are told so

    async def _opened(self) -> Connection:
        make = partial(Connection, self._clock, self._free, self._gone)
        async with timeout(self._connect_s):
            connection = await self._origin.connect(make)
        if connection.closed:
            raise ConnectionResetError("the server closed the connection at once")
        self._live.add(connection)
        return connection

    def _tell(
        self, then: Callable[[Connection | BaseException], None], task: asyncio.Task[Connection]
    ) -> None:
        self._tasks.discard(task)
        self._opening -= 1
        if not task.cancelled():
            then(task.exception() or task.result())
        self._when_free()

    def _free(self, connection: Connection) -> None:
        self._idle.append(connection)
        self._when_free()

    def _gone(self, connection: Connection) -> None:
        if connection in self._live:
            self._live.discard(connection)
            if connection in self._idle:
                self._idle.remove(connection)
            self._when_free()


def _stale(connection: Connection, now_s: float) -> bool:
    limit_s = KEEP_ALIVE_S
    if connection.idle_limit_s is not None:
        limit_s = min(limit_s, 0.8 * connection.idle_limit_s)
    return now_s - connection.idle_since_s > limit_s
