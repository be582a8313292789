"""An HTTP server on bare sockets that sends exactly what a script says, byte by byte if need be."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from rbx.config.endpoints import InstanceEndpoint
from rbx.serve.upstream.instance import HttpInstance

# bytes go out as one chunk of the body, numbers are pauses in seconds; "hang" waits for the client to leave,
# "cut" closes without the body's end, "reset" sends RST.
Step = bytes | float | Literal["hang", "cut", "reset"]


@dataclass(frozen=True)
class Script:
    """An answer: the head, then the steps of the body; ``silent`` sends no head and waits."""

    steps: Sequence[Step] = ()
    status: int = 200
    content_type: str = "text/event-stream"
    headers: Sequence[str] = ()
    silent: bool = False
    keeps_alive: bool = True
    raw_head: bytes | None = None


@dataclass
class Streaming:
    """A running server and what it saw; ``left_s`` are the times at which clients left a request early."""

    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    left_s: list[float] = field(default_factory=list)
    connections: int = 0
    under_way: int = 0

    def instance(self, **endpoint: Any) -> HttpInstance:
        """A client of it."""
        return HttpInstance("tiny/0", InstanceEndpoint(url=self.url, **endpoint), "tiny")


@asynccontextmanager
async def streaming(rule: Callable[[dict[str, Any]], Script]) -> AsyncIterator[Streaming]:
    """Serve ``rule`` on a free port until the block ends."""
    served = Streaming("")
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        served.connections += 1
        try:
            while await _answer(reader, writer, rule, served):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client left, or the block ended
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield served
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _answer(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    rule: Callable[[dict[str, Any]], Script],
    served: Streaming,
) -> bool:
    """One request; whether the connection stays."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = next(
        int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length")
    )
    body = json.loads(await reader.readexactly(length))
    served.heads.append(head)
    served.bodies.append(body)
    served.under_way += 1
    leaving = asyncio.ensure_future(reader.read(1))  # the client sends nothing more: it can only leave
    playing = asyncio.ensure_future(_play(writer, rule(body)))
    try:
        await asyncio.wait({leaving, playing}, return_when=asyncio.FIRST_COMPLETED)
        served.under_way -= 1
        if playing.done() and playing.exception() is None:
            return playing.result() and await _next_request(leaving, reader)
        served.left_s.append(time.monotonic())
        return False
    finally:
        leaving.cancel()
        playing.cancel()
        await asyncio.gather(leaving, playing, return_exceptions=True)


async def _next_request(leaving: asyncio.Future[bytes], reader: asyncio.StreamReader) -> bool:
    first = await leaving
    if not first:
        return False
    buffer: bytearray = vars(reader)["_buffer"]  # asyncio offers no way to put a byte back
    buffer[:0] = first
    return True


async def _play(writer: asyncio.StreamWriter, script: Script) -> bool:
    if script.silent:
        await asyncio.sleep(3600.0)
    lines = [f"HTTP/1.1 {script.status} Whatever", f"Content-Type: {script.content_type}"]
    lines += [*script.headers, "Transfer-Encoding: chunked", "", ""]
    writer.write("\r\n".join(lines).encode() if script.raw_head is None else script.raw_head)
    for step in script.steps:
        if step == "hang":
            await asyncio.sleep(3600.0)
        elif step == "cut":
            return False
        elif step == "reset":
            raw: socket.socket = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        elif isinstance(step, bytes):
            writer.write(b"%x\r\n%s\r\n" % (len(step), step))
            await writer.drain()
        else:
            await asyncio.sleep(float(step))
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return script.keeps_alive


def event(document: dict[str, Any] | str) -> bytes:
    """A whole event."""
    text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
    return b"data: " + text.encode() + b"\n\n"


def said(content: str, **more: Any) -> bytes:
    """A chunk of a chat answer with text."""
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": None}
    return event({"choices": [choice], **more})


ROLE = event(
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
)
FINISH = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
USAGE = event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}})
DONE = event("[DONE]")
