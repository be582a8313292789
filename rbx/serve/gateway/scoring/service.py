"""The scoring service of a sidecar: a queue of prompts in a process of its own, behind HTTP on loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from rbx.serve.gateway.incoming import until_left
from rbx.serve.gateway.listener import allow_open_files
from rbx.serve.gateway.scoring.scorer import Foreseen
from rbx.serve.gateway.scoring.stage import ScoredPrompt, ScoringStage
from rbx.serve.gateway.scoring.wire import PATH, Served, answer, read_question

MAX_BODY_BYTES = 2**25
KEEP_ALIVE_S = 75  # longer than its clients keep a connection: none is closed under a request


def scoring_app(stage: ScoringStage) -> Starlette:
    """``POST /score`` about one prompt: 200 with what is foreseen, 400, 413, or 503 where scoring fails."""

    async def score(request: Request) -> Response:
        try:
            body = await _body(request)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody hears it
        if body is None:
            return Response(status_code=413)
        try:
            text = read_question(body)
        except ValueError as error:
            return Response(f"{error}\n", 400)
        found = await _unless_left(request, stage.score(text))
        if found is None:
            return Response(status_code=503)
        foreseen = Foreseen(found.quality, found.length_tokens, found.router_score)
        told = answer(Served(foreseen, found.back_s - found.began_s))
        return Response(told, media_type="application/json")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await stage.close()

    return Starlette(routes=[Route(PATH, score, methods=["POST"])], lifespan=lifespan)


async def _body(request: Request) -> bytes | None:
    """None where it is too large."""
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BODY_BYTES:
            return None
    return b"".join(pieces)


async def _unless_left(
    request: Request, scoring: Coroutine[Any, Any, ScoredPrompt | None]
) -> ScoredPrompt | None:
    """What ``scoring`` comes to; given up, with None, once nobody waits: the queue holds no such prompt."""
    asking, leaving = asyncio.ensure_future(scoring), asyncio.ensure_future(until_left(request.receive))
    try:
        await asyncio.wait({asking, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else None
    finally:
        asking.cancel()
        leaving.cancel()


async def serve_scoring(stage: ScoringStage, sock: socket.socket, started: Callable[[], None]) -> None:
    """Serve on ``sock`` until a signal; ``started`` is called once it answers.

    Raises whatever ``stage`` can't start for.
    """
    await stage.start()
    await _Server(scoring_app(stage), started).serve(sockets=[sock])


class _Server(uvicorn.Server):
    def __init__(self, app: Starlette, started: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            ws="none",
            lifespan="on",
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)
        self._tell = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and say so; each prompt that waits holds a connection."""
        allow_open_files()
        await super().startup(sockets)
        self._tell()
