"""A real HTTP server that speaks the OpenAI API and answers by a rule."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(frozen=True)
class Reply:
    """What the server sends; ``body`` may be a document or raw bytes; ``hang`` sends nothing at all."""

    body: dict[str, Any] | bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    hang: bool = False


Rule = Callable[[str, dict[str, Any]], Reply]


def answer(
    text: str | None,
    *,
    finish_reason: str | None = "stop",
    input_tokens: int | None = 7,
    output_tokens: int | None = 5,
    model: str = "scripted",
    delay_s: float = 0.0,
) -> Reply:
    """A well-formed answer for both APIs: chat and completions."""
    choice = {"index": 0, "text": text, "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": input_tokens, "completion_tokens": output_tokens}
    body: dict[str, Any] = {
        "id": "scripted",
        "model": model,
        "choices": [choice | {"finish_reason": finish_reason}],
    }
    if input_tokens is not None or output_tokens is not None:
        body["usage"] = {key: value for key, value in usage.items() if value is not None}
    return Reply(body, delay_s=delay_s)


@dataclass
class Scripted:
    """A running server: its API base, the requests it saw as (path, body), and the most it had at once."""

    url: str
    seen: list[tuple[str, dict[str, Any]]]
    headers: list[dict[str, str]]
    most_at_once: int = 0


def prompt_of(body: Mapping[str, Any]) -> str:
    """The last user message, or the bare prompt."""
    return str(body["messages"][-1]["content"]) if "messages" in body else str(body["prompt"])


@contextmanager
def scripted(
    rule: Rule, models: tuple[str, ...] = ("scripted",), listing_status: Callable[[], int] = lambda: 200
) -> Iterator[Scripted]:
    """Serve ``rule`` on a free port of the loopback interface until the block ends.

    ``/models`` lists ``models`` with the status that ``listing_status`` gives each time.
    """
    served = Scripted("", [], [])
    loop = asyncio.new_event_loop()
    started = threading.Event()
    runners: list[web.AppRunner] = []

    async def start() -> None:
        app = _application(rule, models, served, listing_status)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        runners.append(runner)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        served.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        started.set()

    async def end() -> None:
        await runners[0].cleanup()
        hanging = asyncio.all_tasks() - {asyncio.current_task()}
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)

    def run() -> None:
        loop.run_until_complete(start())
        loop.run_forever()

    thread = threading.Thread(target=run, name="scripted-server", daemon=True)
    thread.start()
    assert started.wait(10.0), "the scripted server did not start"
    try:
        yield served
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(10.0)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10.0)
        loop.close()


def _application(
    rule: Rule, models: tuple[str, ...], served: Scripted, listing_status: Callable[[], int]
) -> web.Application:
    under_way = 0

    async def ask(request: web.Request) -> web.Response:
        nonlocal under_way
        body = await request.json()
        under_way += 1
        served.most_at_once = max(served.most_at_once, under_way)
        served.seen.append((request.path, body))
        served.headers.append(dict(request.headers))
        try:
            reply = rule(request.path, body)
            await asyncio.sleep(3600.0 if reply.hang else reply.delay_s)
        finally:
            under_way -= 1
        raw = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        return web.Response(
            body=raw, status=reply.status, headers=reply.headers, content_type="application/json"
        )

    async def listed(request: web.Request) -> web.Response:
        listing = {"object": "list", "data": [{"id": name} for name in models]}
        return web.json_response(listing, status=listing_status())

    app = web.Application()
    app.router.add_post("/v1/chat/completions", ask)
    app.router.add_post("/v1/completions", ask)
    app.router.add_get("/v1/models", listed)
    return app
