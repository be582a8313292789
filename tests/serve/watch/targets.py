"""Servers to be scraped that answer as a test says: well, late, never, with nonsense or without an end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from rbx.config.endpoints import InstanceEndpoint

HANGS = -1.0


@dataclass
class Target:
    """Answers ``pages[path]``; other paths with 404. An asynchronous context."""

    pages: dict[str, bytes | str] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=dict)
    delay_s: dict[str, float] = field(default_factory=dict)  # HANGS: no byte, and the connection stays
    endless: set[str] = field(default_factory=set)  # paths whose body never ends
    port: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    headers: dict[str, str] = field(default_factory=dict)  # of the newest question, names in lower case

    @property
    def endpoint(self) -> InstanceEndpoint:
        return InstanceEndpoint(url=f"http://127.0.0.1:{self.port}/v1")

    async def __aenter__(self) -> Target:
        await self.up()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.down()

    async def up(self) -> None:
        """Listen, on the same port as before."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Refuse, and cut what is open."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the reader has given up
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *rest = head.strip().split("\r\n")
        path = first.split(" ")[1]
        self.asked[path] += 1
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
        delay_s = self.delay_s.get(path, 0.0)
        if delay_s == HANGS:
            await asyncio.Event().wait()
        await asyncio.sleep(delay_s)
        page = self.pages.get(path)
        body = page.encode() if isinstance(page, str) else page or b""
        status = self.status.get(path, 200 if page is not None else 404)
        length = "" if path in self.endless else f"Content-Length: {len(body)}\r\n"
        writer.write(f"HTTP/1.1 {status} Told\r\n{length}Connection: close\r\n\r\n".encode() + body)
        while path in self.endless:
            writer.write(b"# " + 65_534 * b"x")
            await writer.drain()
        await writer.drain()


async def until(holds: Callable[[], bool], patience_s: float = 20.0) -> None:
    """Wait until ``holds``; fails if it never does."""

    async def wait() -> None:
        while not holds():
            await asyncio.sleep(0.005)

    await asyncio.wait_for(wait(), patience_s)
