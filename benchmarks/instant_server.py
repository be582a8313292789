"""``python -m benchmarks.instant_server PORT …``: a server that answers at once, as vLLM would word it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.serving import Served, free_ports, serving
from rbx.config.pool import load_pool

TOKENS = 32


@contextlib.contextmanager
def instant_pool(pool: Path, endpoints: Path) -> Iterator[tuple[Served, list[int]]]:
    """One such process on a port for each instance of ``pool``; writes ``endpoints``."""
    names = [instance.name for instance in load_pool(pool).value.instances]
    ports = free_ports(len(names))
    lines = [
        f"  {name}: {{url: 'http://127.0.0.1:{port}/v1'}}" for name, port in zip(names, ports, strict=True)
    ]
    endpoints.write_text("\n".join(["instances:", *lines, ""]), encoding="utf-8")
    with serving([sys.executable, "-m", "benchmarks.instant_server", *ports], ports[-1]) as served:
        yield served, ports


def _serve(ports: Sequence[int]) -> None:
    import orjson
    import uvicorn
    from starlette.types import Receive, Scope, Send

    def chunk(delta: dict[str, str], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        told = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        return b"data: " + orjson.dumps(told) + b"\n\n"

    usage = {"prompt_tokens": 9, "completion_tokens": TOKENS, "total_tokens": 9 + TOKENS}
    events = [chunk({"content": "word "}, "length" if k == TOKENS - 1 else None) for k in range(TOKENS)]
    whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    events.append(b"data: " + orjson.dumps({**whole, "choices": [], "usage": usage}) + b"\n\n")
    message = {"role": "assistant", "content": "word " * TOKENS}
    choice = {"index": 0, "message": message, "finish_reason": "length"}
    plain = orjson.dumps({**whole, "choices": [choice], "usage": usage})

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        stream = scope["method"] == "POST" and orjson.loads(body).get("stream")
        kind = b"text/event-stream" if stream else b"application/json"
        headers = [(b"content-type", kind)]
        if not stream:
            headers.append((b"content-length", str(len(plain)).encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if not stream:
            await send({"type": "http.response.body", "body": plain})
            return
        for event in events:
            await send({"type": "http.response.body", "body": event, "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    sockets = []
    for port in ports:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        sockets.append(listener)
    config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets)


if __name__ == "__main__":
    _serve([int(word) for word in sys.argv[1:]])
