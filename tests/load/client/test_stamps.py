"""Times against those at which a server on a bare socket really wrote: the golden truth on the wire.

Server and client share one event loop, which looks for arrived bytes before it starts timers: a read
comes after its own write and before the next one, however slow the machine is.
"""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

import pytest

from tests.load.client.sent import Sent, asking, sent
from tests.load.client.wording import DONE, PING, ROLE, STOP, delta, event, last_usage, usage

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
GAP_S = 0.02
WHOLE = event({"choices": [{"index": 0, "delta": {"content": "ü🌍"}}]})
SCRIPTS: dict[str, list[tuple[str, bytes]]] = {
    # (what a stamp of this write is: "" for none), bytes
    "one token a chunk": [
        ("byte", HEAD),
        ("", ROLE),
        ("", PING),
        ("", delta({"content": ""})),
        *(("chunk", delta({"content": f" {k}"})) for k in range(8)),
        ("", STOP),
        ("", last_usage(8)),
        ("done", DONE),
    ],
    "four tokens a chunk": [
        ("byte", HEAD + b""),
        *(("chunk", delta({"content": " a b c d"}, **usage(4 * k))) for k in range(1, 7)),
        ("", STOP),
        ("", last_usage(24)),
        ("done", DONE),
    ],
    "reasoning, then the answer": [
        ("byte", HEAD),
        ("chunk", delta({"reasoning": "r"})),
        ("chunk", delta({"reasoning": "r"})),
        ("chunk answer", delta({"content": "a"})),
        ("chunk", delta({"content": "b"})),
        ("", STOP),
        ("done", DONE),
    ],
    "events cut anywhere": [
        ("byte", HEAD[:20]),
        ("", HEAD[20:]),
        ("", WHOLE[:-9]),
        ("chunk", WHOLE[-9:] + WHOLE[:50]),
        ("", WHOLE[50:-1]),
        ("chunk", WHOLE[-1:]),
        ("", STOP),
        ("done", DONE),
    ],
}


async def played(script: list[tuple[str, bytes]]) -> tuple[Sent, list[tuple[str, float]]]:
    """What the client says of ``script``, and when each part of it was written."""
    written: list[tuple[str, float]] = []
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for what, data in script:
            await asyncio.sleep(GAP_S)
            written.append((what, time.monotonic()))
            is_head = data in (HEAD, HEAD[:20], HEAD[20:])
            writer.write(data if is_head else b"%x\r\n%s\r\n" % (len(data), data))
        await asyncio.sleep(GAP_S)
        written.append(("end", time.monotonic()))
        writer.close()
        over.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        done = await sent(url, [asking(0, 0.03)])
        await over.wait()
        return done, written


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_stamp_lies_between_its_write_and_the_next(name: str) -> None:
    done, written = asyncio.run(played(SCRIPTS[name]))
    result = done.results[0]
    assert result.status == "ok"
    # Results are rounded to the microsecond.
    after = [(what, at_s - done.start_s - 1e-6) for what, at_s in written]

    def windows(which: str) -> list[tuple[float, float]]:
        return [(at_s, next_s) for (what, at_s), (_, next_s) in pairwise(after) if which in what]

    chunks = windows("chunk")
    assert len(chunks) == len(result.chunk_s) >= 2
    for at_s, (from_s, to_s) in zip(result.chunk_s, chunks, strict=True):
        assert from_s <= at_s <= to_s + 2e-6
    assert result.first_token_s == result.chunk_s[0]
    assert result.last_token_s == result.chunk_s[-1]
    for stamp, which in ((result.first_byte_s, "byte"), (result.done_s, "done")):
        assert stamp is not None
        ((from_s, to_s),) = windows(which)
        assert from_s <= stamp <= to_s + 2e-6
    assert result.sent_s is not None
    assert 0.03 <= result.sent_s <= after[0][1]
    answer = windows("answer") or chunks
    assert result.first_answer_s is not None
    assert answer[0][0] <= result.first_answer_s <= answer[0][1] + 2e-6
