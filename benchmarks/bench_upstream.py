"""What passing an answer through costs: CPU time per chunk and per stream, beside a bare aiohttp read loop.

The server runs in a process of its own and paces its chunks, so that each comes in a read of its own, as
tokens do. Times are CPU times of the client's process, event loop and HTTP parsing included.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Any

import aiohttp
import uvloop

from rbx.config.endpoints import InstanceEndpoint
from rbx.config.gateway import Deadlines
from rbx.load.completion_chunk import TokenTally, read_chunk
from rbx.load.sse import SseReader
from rbx.serve.upstream.instance import HttpInstance
from tests.serve.upstream.streaming_server import DONE, FINISH, ROLE, said

STREAMS = 40
CHUNKS = 200
PACE_S = 0.01
SHORT_STREAMS = 2000
SHORT_AT_ONCE = 8
PARSED_EVENTS = 200_000
ROUNDS = 3
MORE: dict[str, Any] = {
    "id": "chatcmpl-8c5f1a7e2b9d4c3f",
    "object": "chat.completion.chunk",
    "created": 1760000000,
    "model": "Qwen/Qwen2.5-72B-Instruct",
    "usage": {"prompt_tokens": 312, "total_tokens": 400, "completion_tokens": 88},
}
TOKEN = said(" token", **MORE)
BODY: dict[str, Any] = {"stream": True, "messages": [{"role": "user", "content": "hi " * 200}]}
Ask = Callable[[dict[str, Any]], Awaitable[None]]


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    token, role, end = _framed(TOKEN), _framed(ROLE), _framed(FINISH + DONE) + b"0\r\n\r\n"
    try:
        while True:
            asked = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(asked.split(b"content-length:")[1].split(b"\r\n")[0])
            paced = b'"paced"' in await reader.readexactly(length)
            writer.write(head + role)
            for _ in range(CHUNKS if paced else 1):
                if paced:
                    await asyncio.sleep(PACE_S)
                writer.write(token)
            writer.write(end)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def _serve(told: Connection) -> None:
    async def run() -> None:
        server = await asyncio.start_server(_answer, "127.0.0.1", 0)
        told.send_bytes(str(server.sockets[0].getsockname()[1]).encode())
        await asyncio.to_thread(told.recv_bytes)
        server.close()

    uvloop.run(run())


async def _gather(ask: Ask, body: dict[str, Any], streams: int, at_once: int) -> None:
    left = iter(range(streams))

    async def work() -> None:
        for _ in left:
            await ask(body)

    await asyncio.gather(*(work() for _ in range(at_once)))


async def _measured(ask: Ask) -> tuple[float, float]:
    """CPU µs per chunk of paced streams, and per whole short stream."""
    await _gather(ask, BODY, 200, SHORT_AT_ONCE)
    started = time.process_time()
    await _gather(ask, {**BODY, "paced": True}, STREAMS, STREAMS)
    chunk_us = (time.process_time() - started) * 1e6 / (STREAMS * CHUNKS)
    started = time.process_time()
    await _gather(ask, BODY, SHORT_STREAMS, SHORT_AT_ONCE)
    return chunk_us, (time.process_time() - started) * 1e6 / SHORT_STREAMS


async def _ours(url: str) -> tuple[float, float]:
    instance = HttpInstance("bench/0", InstanceEndpoint(url=url), "bench")
    deadlines = Deadlines()

    async def ask(body: dict[str, Any]) -> None:
        exchange = await instance.send("/chat/completions", body, deadlines)
        tokens = 0
        async for piece in exchange.pieces():
            tokens += piece.tokens
        await exchange.close()
        assert tokens > 0

    try:
        return await _measured(ask)
    finally:
        await instance.close()


async def _bare(url: str) -> tuple[float, float]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def ask(body: dict[str, Any]) -> None:
            size = 0
            async with session.post(url + "/chat/completions", json=body) as response:
                async for data in response.content.iter_any():
                    size += len(data)
            assert size > len(TOKEN)

        return await _measured(ask)


def _splitter(pieces: list[bytes]) -> int:
    """How SSE is often read: text joined, and cut at its first blank line again and again."""
    buffer, count = "", 0
    for piece in pieces:
        buffer += piece.decode()
        while "\n\n" in buffer:
            event, buffer = buffer.split("\n\n", 1)
            if event.startswith("data: "):
                count += bool(event[6:])
    return count


def _reader(pieces: list[bytes]) -> int:
    reader = SseReader()
    return sum(event.data is not None for piece in pieces for event in reader.feed(piece))


def _rate(count: Callable[[list[bytes]], int], pieces: list[bytes]) -> float:
    best_s = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        assert count(pieces) == PARSED_EVENTS
        best_s = min(best_s, time.process_time() - started)
    return PARSED_EVENTS / best_s


def _parsing() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    crlf = TOKEN[:-2] + b"\r\n\r\n"
    for path, a_read, token in (("one a read", 1, TOKEN), ("100 a read", 100, TOKEN), ("CRLF", 1, crlf)):
        pieces = [token * a_read] * (PARSED_EVENTS // a_read)
        ours = _rate(_reader, pieces)
        row = {"path": f"event reader, {path}", "ours": ours, "unit": "events/s"}
        if token is TOKEN:
            peer = _rate(_splitter, pieces)
            row |= {"peer": peer, "peer_name": "joining and splitting text", "ratio": ours / peer}
        rows.append(row)
    tally, data = TokenTally(), TOKEN[6:-2]
    started = time.process_time()
    for _ in range(PARSED_EVENTS):
        chunk = read_chunk(data)
        assert chunk is not None
        tally.new_tokens(chunk)
    micros = (time.process_time() - started) * 1e6 / PARSED_EVENTS
    return [*rows, {"path": "meaning of a chunk", "ours": micros, "unit": "µs"}]


def rows() -> list[dict[str, Any]]:
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,))
    server.start()
    url = f"http://127.0.0.1:{here.recv_bytes().decode()}/v1"
    pairs = [(uvloop.run(_ours(url)), uvloop.run(_bare(url))) for _ in range(ROUNDS)]
    here.send_bytes(b"end")
    server.join()
    found = []
    for number, path in enumerate(("one chunk passed through", "one stream of one token")):
        ours = min(ours[number] for ours, _ in pairs)
        peer = min(bare[number] for _, bare in pairs)
        row = {"path": path, "ours": ours, "unit": "µs CPU", "peer": peer, "ratio": peer / ours}
        found.append(row | {"peer_name": "bare aiohttp read loop", "added_us": ours - peer})
    return found + _parsing()
