"""``/v1/chat/completions`` and ``/v1/completions`` of a mock instance."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from rbx.config.faults import Crash, ErrorEvent, Hang
from rbx.config.pool import Tier
from rbx.serve.mock.asked import Api, Asked, read_asked
from rbx.serve.mock.fault_book import RequestFaults
from rbx.serve.mock.paced_engine import PacedEngine
from rbx.serve.mock.refusal import Refusal, error_object
from rbx.serve.mock.ticket import ClientLeft, Ticket
from rbx.serve.mock.wire import DONE, Wire, event, usage_object
from rbx.serve.mock.wording import words

_FAILED = "the mock engine failed on request"
_FLUSH_S = 1e-3  # the loop writes what it was given once it turns; a reset would drop it
_STREAM_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8")]


class Served(Protocol):
    """What an endpoint needs of its instance."""

    tier: Tier
    seed: int
    engine: PacedEngine

    def next_request(self) -> RequestFaults | None:
        """Faults of a request that arrives now; None if the server is not to answer at all."""

    def reset(self, client: Any) -> None:
        """Reset the connection of a client."""


@dataclass(frozen=True)
class _Reply:
    """One answer under way and the connection it goes to."""

    asked: Asked
    faults: RequestFaults
    ticket: Ticket
    words: list[str]
    wire: Wire
    send: Send
    gone: asyncio.Task[None]  # ends when the client has left


class _Crashed(Exception):
    """The connection is to be reset."""


class Completions:
    """An ASGI application that answers one path."""

    def __init__(self, served: Served, api: Api) -> None:
        """Answer for ``served``."""
        self._served, self._api = served, api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; a client that leaves ends its request in the engine."""
        try:
            content = await Request(scope, receive).body()
        except ClientDisconnect:
            return
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            await self._answer(scope, content, receive, send, gone)
        except _Crashed:
            await asyncio.sleep(_FLUSH_S)
            self._served.reset(scope["client"])
            await gone
        finally:
            gone.cancel()

    async def _answer(
        self, scope: Scope, content: bytes, receive: Receive, send: Send, gone: asyncio.Task[None]
    ) -> None:
        faults = self._served.next_request()
        if faults is None or (isinstance(faults.cut, Crash) and faults.cut.after_chunks == 0):
            raise _Crashed
        if faults.status is not None:
            status, wait_s = faults.status.code, faults.status.retry_after_s
            headers = {} if wait_s is None else {"retry-after": str(wait_s)}
            response = JSONResponse(error_object(status, _FAILED), status, headers)
            return await response(scope, receive, send)
        headers_in = Request(scope).headers
        tier = self._served.tier
        try:
            asked = read_asked(self._api, content, headers_in, tier, self._served.seed)
        except Refusal as refusal:
            return await refusal.response()(scope, receive, send)
        engine = self._served.engine
        ticket = engine.submit(asked.prompt_tokens, asked.output_tokens, asked.cap_tokens, asked.by_length)
        gone.add_done_callback(lambda _: engine.abort(ticket))
        name = headers_in.get("x-request-id") or secrets.token_hex(16)
        prefix = "chatcmpl" if self._api == "chat" else "cmpl"
        wire = Wire(asked, f"{prefix}-{name}", int(time.time()), tier.model)
        text = words(asked.wording, asked.output_tokens)
        reply = _Reply(asked, faults, ticket, text, wire, send, gone)
        try:
            await (_stream(reply) if asked.stream else _plain(reply))
        except ClientLeft:
            if not gone.done():
                raise _Crashed from None  # the server itself goes down
        finally:
            engine.abort(ticket)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _stream(reply: _Reply) -> None:
    wire, faults, total = reply.wire, reply.faults, len(reply.words)
    cut = None if faults.cut is None else faults.cut.after_chunks
    bad = None if faults.bad_json is None else faults.bad_json.after_chunks
    await reply.send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
    more = partial(_more, reply.send)
    if cut == 0 and await _cut(reply):
        return
    sent, opening = 0, wire.opening()
    while sent < total:
        here = await reply.ticket.beyond(sent)
        end = min([here, *(at for at in (cut, bad) if at is not None and at > sent)])
        extra = wire.cut_event() if bad is not None and (sent == bad == 0 or sent < bad == end) else b""
        text = wire.texts(reply.words, sent, end)
        await more(opening + (extra + text if bad == 0 else text + extra))
        sent, opening = end, b""
        if sent == cut and await _cut(reply):
            return
    usage, known = _usage(reply)
    if reply.asked.include_usage and known:
        await more(wire.usage(usage))
    end_bytes = b"" if faults.no_done else DONE
    await reply.send({"type": "http.response.body", "body": end_bytes, "more_body": False})


async def _plain(reply: _Reply) -> None:
    faults, total = reply.faults, len(reply.words)
    cut = faults.cut
    if cut is not None and cut.after_chunks < total:
        if cut.after_chunks:
            await reply.ticket.beyond(cut.after_chunks - 1)
        if await _cut(reply):
            return
    await reply.ticket.beyond(total - 1)
    usage, known = _usage(reply)
    body = reply.wire.whole(reply.words, usage, leave_out=not known)
    if faults.bad_json is not None:
        body = body[: len(body) // 2]
    await _whole(reply.send, 200, body)


async def _cut(reply: _Reply) -> bool:
    """Let the fault act that is due; True if the answer has ended by it."""
    cut = reply.faults.cut
    if isinstance(cut, Crash):
        raise _Crashed
    if isinstance(cut, Hang):
        await asyncio.wait([reply.gone])
        return True
    if isinstance(cut, ErrorEvent):
        error = error_object(500, _FAILED)
        if reply.asked.stream:
            await reply.send({"type": "http.response.body", "body": event(error) + DONE, "more_body": False})
        else:
            await JSONResponse(error, 500)({"type": "http"}, _nothing, reply.send)
        return True
    return False


def _usage(reply: _Reply) -> tuple[dict[str, Any] | None, bool]:
    """The usage to report, and whether to report one at all."""
    fault = reply.faults.usage
    prompt, output = reply.asked.prompt_tokens, reply.asked.output_tokens
    if fault is None:
        return usage_object(prompt, output), True
    if fault.mode == "wrong":
        return usage_object(int(prompt * fault.factor), int(output * fault.factor)), True
    return None, fault.mode == "null"


async def _more(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _whole(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _nothing() -> Any:
    raise AssertionError("a plain response reads nothing")
