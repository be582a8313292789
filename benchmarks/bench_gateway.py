"""What the gateway adds to a request at 200 requests/s: to an instant server, and through a null policy.

Server and gateway run in processes of their own. The client is open-loop: request k is sent at its time
whatever the others do, first directly, then through the gateway, in alternating rounds.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

RATE_PER_S = 200.0
ROUND_S = 4.0
ROUNDS = 3
TOKENS = 32
BODY = {
    "model": "rbx",
    "messages": [{"role": "user", "content": "How long does this take, and why?"}],
    "max_tokens": TOKENS,
}


def rows() -> list[dict[str, Any]]:
    """Medians and tails of both paths, plain and streamed."""
    found: list[dict[str, Any]] = []
    with _process("server") as server, _process("gateway", server) as gateway:
        for stream in (False, True):
            times = asyncio.run(_compared((server, gateway), stream=stream))
            kind = "stream of 32 events, first token" if stream else "plain answer"
            direct, through = (np.concatenate(each) for each in zip(*times, strict=True))
            for name, share in (("median", 50.0), ("p99", 99.0)):
                own, bare = np.percentile(through, share), np.percentile(direct, share)
                found.append(
                    {
                        "path": f"gateway, added {name}, {kind}, {RATE_PER_S:g} requests/s",
                        "ours": 1e3 * (own - bare),
                        "unit": "ms",
                        "direct_ms": round(1e3 * bare, 3),
                        "through_ms": round(1e3 * own, 3),
                        "requests": len(through),
                    }
                )
    return found


async def _compared(ports: tuple[int, int], *, stream: bool) -> list[tuple[Any, Any]]:
    import aiohttp

    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=2.0)
    ) as session:
        for port in ports:
            await _round(session, port, 0.5, stream=stream)  # connections and caches
        found = []
        for _ in range(ROUNDS):
            direct, through = [await _round(session, port, ROUND_S, stream=stream) for port in ports]
            found.append((direct, through))
        return found


async def _round(session: Any, port: int, seconds: float, *, stream: bool) -> Any:
    """Seconds to the first byte of text, or to the whole answer."""
    n = round(RATE_PER_S * seconds)
    times = np.zeros(n)
    start_s = time.perf_counter() + 0.05

    async def ask(k: int) -> None:
        await asyncio.sleep(start_s + k / RATE_PER_S - time.perf_counter())
        sent_s = time.perf_counter()
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        async with session.post(url, json={**BODY, "stream": stream}) as answer:
            assert answer.status == 200, await answer.text()
            await answer.content.readany()
            first_s = time.perf_counter()
            await answer.read()
        times[k] = (first_s if stream else time.perf_counter()) - sent_s

    await asyncio.gather(*(ask(k) for k in range(n)))
    return times


@contextlib.contextmanager
def _process(*words: object) -> Iterator[int]:
    """This module as a server in a process of its own; yields its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-m", "benchmarks.bench_gateway", *map(str, words), str(port)]
    process = subprocess.Popen(command)
    try:
        until_s = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            if process.poll() is not None or time.monotonic() > until_s:
                raise RuntimeError(f"{' '.join(map(str, words))} did not start")
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(10)


def _serve_instant(port: int) -> None:
    """An ASGI server that answers at once, as vLLM would word it."""
    import orjson
    import uvicorn
    from starlette.types import Receive, Scope, Send

    def chunk(delta: dict[str, str], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return (
            b"data: "
            + orjson.dumps({"id": "c", "object": "chat.completion.chunk", "choices": [choice]})
            + b"\n\n"
        )

    usage = {"prompt_tokens": 9, "completion_tokens": TOKENS, "total_tokens": 9 + TOKENS}
    events = [chunk({"content": "word "}, "length" if k == TOKENS - 1 else None) for k in range(TOKENS)]
    events.append(b"data: " + orjson.dumps({"id": "c", "choices": [], "usage": usage}) + b"\n\n")
    message = {"role": "assistant", "content": "word " * TOKENS}
    choice = {"index": 0, "message": message, "finish_reason": "length"}
    plain = orjson.dumps({"id": "c", "choices": [choice], "usage": usage})

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

    uvicorn.run(app, port=port, log_level="error", access_log=False, lifespan="off")


def _serve_gateway(server: int, port: int) -> None:
    """A gateway with the null policy over thirteen instances, which are all that one server."""
    import uvloop

    from rbx.config.base import parse
    from rbx.config.endpoints import InstanceEndpoint
    from rbx.config.gateway import GatewayConfig
    from rbx.config.pool import load_pool
    from rbx.serve.gateway.app import gateway_app
    from rbx.serve.gateway.gateway import Gateway
    from rbx.serve.gateway.server import GatewayServer
    from rbx.serve.upstream.instance import HttpInstance
    from rbx.serve.watch.pool_watch import PoolWatch
    from tests.workplace import ROOT

    pool = load_pool(ROOT / "experiments/pools/paper.yaml").value
    endpoint = InstanceEndpoint(url=f"http://127.0.0.1:{server}/v1")
    endpoints = (endpoint,) * len(pool.instances)
    policy = {"kind": "passthrough", "dispatch": ["shortest-queue"]}
    config = parse(GatewayConfig, {"policy": policy}, where="benchmark")

    async def serve() -> None:
        upstreams = [HttpInstance(each.name, endpoint, each.tier.model) for each in pool.instances]
        gateway = Gateway(pool, None, upstreams, PoolWatch(pool, endpoints, config.watch), config)
        app = gateway_app(gateway)
        await GatewayServer(app, gateway, host="127.0.0.1", port=port, drain_s=1.0).serve()

    uvloop.run(serve())


if __name__ == "__main__":
    if sys.argv[1] == "server":
        _serve_instant(int(sys.argv[2]))
    elif sys.argv[1] == "gateway":
        _serve_gateway(int(sys.argv[2]), int(sys.argv[3]))
