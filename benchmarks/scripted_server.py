"""A server whose answers all follow one script and which knows when it wrote what: a benchmark's truth.

``python -m benchmarks.scripted_server TTFT_S GAP_S`` prints its port. A request's first token is written
``TTFT_S`` after its last byte came, each further one ``GAP_S`` later, on absolute times; with both 0 all are
written at once, each by itself. ``max_tokens`` of the body (or ``max_completion_tokens``) says how many.
``GET /truth`` tells what was written since the last time it was asked, and the CPU time it took.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from functools import partial
from typing import Any, ClassVar, cast

import orjson
import uvloop

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
MODEL = "scripted"
DEFAULT_TOKENS = 16


class Truth:
    """What was written: seconds from a request's last byte to its first token, and from token to token."""

    def __init__(self) -> None:
        self.ttft_s: list[float] = []
        self.gap_s: list[float] = []
        self.tokens = 0
        self.cpu_s = time.process_time()

    def told(self) -> dict[str, Any]:
        return {**vars(self), "cpu_s": time.process_time() - self.cpu_s}


class Script:
    """The parts of an answer, as they are written."""

    def __init__(self, chat: bool) -> None:
        kind = "chat.completion.chunk" if chat else "text_completion"
        self.base = {"id": "cmpl-8c5f1a7e2b9d4c3f", "object": kind, "created": 1760000000, "model": MODEL}
        role = {"delta": {"role": "assistant", "content": ""}}
        self.role = self._event([{"index": 0, **role, "finish_reason": None}]) if chat else b""
        self.token = self._event([self._choice(chat, None)])
        self.last = self._event([self._choice(chat, "length")])

    def end(self, tokens: int, usage: bool) -> bytes:
        counts = {"prompt_tokens": 16, "total_tokens": 16 + tokens, "completion_tokens": tokens}
        tail = self._event([], usage=counts) if usage else b""
        return tail + framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"

    def _choice(self, chat: bool, reason: str | None) -> dict[str, Any]:
        said: dict[str, Any] = {"delta": {"content": " token"}} if chat else {"text": " token"}
        return {"index": 0, **said, "logprobs": None, "finish_reason": reason}

    def _event(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        return framed(b"data: " + orjson.dumps({**self.base, "choices": choices, **more}) + b"\n\n")


def framed(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Answering(asyncio.Protocol):
    """One connection; requests one after the other."""

    scripts: ClassVar = {True: Script(True), False: Script(False)}
    truth: ClassVar = Truth()

    def __init__(self, ttft_s: float, gap_s: float) -> None:
        self._ttft_s, self._gap_s = ttft_s, gap_s
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._heard = b""
        self._gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True

    def data_received(self, data: bytes) -> None:
        at_s = time.monotonic()
        self._heard += data
        head, blank, rest = self._heard.partition(b"\r\n\r\n")
        if not blank:
            return
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line[15:])
        if len(rest) < length:
            return
        self._heard = rest[length:]
        method, path, _ = head.split(b" ", 2)
        if method == b"POST":
            self._post(path, orjson.loads(rest[:length]), at_s)
        else:
            self._get(path)

    def _post(self, path: bytes, body: dict[str, Any], at_s: float) -> None:
        tokens = int(body.get("max_completion_tokens") or body.get("max_tokens") or DEFAULT_TOKENS)
        script = self.scripts[path.endswith(b"/chat/completions")]
        if not body.get("stream"):
            self._plain({**script.base, "choices": [{"index": 0, "text": "", "message": {"content": ""}}]})
            return
        usage = bool((body.get("stream_options") or {}).get("include_usage"))
        self._write(HEAD + script.role)
        end = script.last + script.end(tokens, usage)
        if self._ttft_s or self._gap_s:
            due_s = at_s + self._ttft_s
            step = partial(self._step, script, end, tokens, due_s, at_s, 0.0)
            self._loop.call_later(self._ttft_s, step, 1)
        else:
            for _ in range(tokens - 1):
                self._write(script.token)
            self._write(end)
            self.truth.tokens += tokens

    def _step(
        self,
        script: Script,
        end: bytes,
        tokens: int,
        due_s: float,
        asked_s: float,
        before_s: float,
        number: int,
    ) -> None:
        """Write token ``number``, not before its time."""
        now_s = time.monotonic()
        if now_s < due_s:
            again = partial(self._step, script, end, tokens, due_s, asked_s, before_s, number)
            self._loop.call_later(due_s - now_s, again)
            return
        if self._gone:
            return
        if number == 1:
            self.truth.ttft_s.append(now_s - asked_s)
        else:
            self.truth.gap_s.append(now_s - before_s)
        self.truth.tokens += 1
        if number == tokens:
            self._write(end)
            return
        self._write(script.token)
        due_s += self._gap_s
        step = partial(self._step, script, end, tokens, due_s, asked_s, now_s, number + 1)
        self._loop.call_later(max(0.0, due_s - time.monotonic()), step)

    def _get(self, path: bytes) -> None:
        if path == b"/truth":
            told, Answering.truth = self.truth.told(), Truth()
            self._plain(told)
        else:
            self._plain({"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": 8192}]})

    def _plain(self, document: dict[str, Any]) -> None:
        body = orjson.dumps(document)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        self._write(head + body)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._gone:
            self._transport.write(data)


async def serve(ttft_s: float, gap_s: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(partial(Answering, ttft_s, gap_s), "127.0.0.1", 0, backlog=4096)
    gc.freeze()
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until whoever started it is gone


if __name__ == "__main__":
    uvloop.run(serve(float(sys.argv[1]), float(sys.argv[2])))
