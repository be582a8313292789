"""The HTTP side: routes, bodies, disconnects, and errors that are always of OpenAI's shape."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import numpy as np
import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from rbx.config.endpoints import InstanceEndpoint
from rbx.serve.gateway.config_api import ConfigEndpoint
from rbx.serve.gateway.errors import ApiError, internal
from rbx.serve.gateway.estimate import EstimateEndpoint
from rbx.serve.gateway.gateway import FREE_MODELS, Gateway
from rbx.serve.gateway.incoming import ClientLeft, Intake, headers_of, request_id, until_left
from rbx.serve.gateway.openapi import openapi
from rbx.serve.gateway.reply import Reply
from rbx.serve.gateway.request import Path, read_request

_log = logging.getLogger(__name__)
_CODES = {404: "not_found", 405: "method_not_allowed"}


def gateway_app(
    gateway: Gateway, *, config_token: str | None = None, endpoints: Sequence[InstanceEndpoint] = ()
) -> Starlette:
    """The application; starts and stops ``gateway`` with the server.

    ``config_token`` guards ``/v1/config``; without one it answers to this machine alone. It shows where the
    instances answer if it is given their ``endpoints``.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            await gateway.start()
            yield
        finally:
            intake.close()
            await gateway.stop()

    intake = Intake()
    pages = Pages(gateway)
    config = ConfigEndpoint(gateway, intake, config_token, endpoints)
    return Starlette(
        routes=[
            Route("/v1/chat/completions", Completions(gateway, intake, "chat/completions"), methods=["POST"]),
            Route("/v1/completions", Completions(gateway, intake, "completions"), methods=["POST"]),
            Route("/v1/models", pages.models, methods=["GET"]),
            Route("/v1/config", config, methods=["GET", "PUT"]),
            Route("/v1/estimate", EstimateEndpoint(gateway, intake), methods=["POST"]),
            Route("/healthz", pages.alive, methods=["GET"]),
            Route("/readyz", pages.ready, methods=["GET"]),
            Route("/metrics", pages.metrics, methods=["GET"]),
            Route("/openapi.json", pages.described, methods=["GET"]),
        ],
        exception_handlers={HTTPException: _http_error, ApiError: _api_error, Exception: _own_fault},
        lifespan=lifespan,
    )


class Completions:
    """A path that answers requests; a plain ASGI application, for the sake of speed and of disconnects."""

    def __init__(self, gateway: Gateway, intake: Intake, path: Path) -> None:
        """``path`` is below ``/v1``."""
        self._gateway = gateway
        self._intake = intake
        self._path: Path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        gateway, intake, reply = self._gateway, self._intake, Reply(send)
        arrived_s = gateway.clock()
        held = 0
        try:
            gateway.check_room()  # whom there is no room for costs no reading
            headers = headers_of(scope)
            raw = await intake.body(receive, headers)
            held = len(raw)
            asked = await intake.read(held, partial(read_request, self._path, raw, headers))
            del raw
        except ApiError as error:
            await reply.refuse(error, {})
            self._count(reply)
        except ClientLeft:
            return
        else:
            serving = gateway.serve(asked, arrived_s, request_id(headers), reply)
            try:
                await self._until_left(asyncio.ensure_future(serving), receive, reply)
            finally:
                self._count(reply)
        finally:
            intake.let_go(held)

    def _count(self, reply: Reply) -> None:
        self._gateway.metrics.requests.labels(self._path, str(reply.status or "left")).inc()

    async def _until_left(self, work: asyncio.Future[None], receive: Receive, reply: Reply) -> None:
        """Await ``work``; when the client leaves, cancel it, and return when it has let go of everything."""
        leaving = asyncio.ensure_future(until_left(receive))
        try:
            await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not work.done():
                self._gateway.metrics.left.inc()
                while not work.done():
                    work.cancel()
                    await asyncio.wait({work}, timeout=1.0)
        failure = None if work.cancelled() else work.exception()
        if failure is None:
            return
        if reply.status is not None:
            raise failure  # the server logs it and closes the connection
        _log.error("a request failed", exc_info=failure)
        await reply.refuse(internal(), {})


class Pages:
    """What the gateway tells of itself."""

    def __init__(self, gateway: Gateway) -> None:
        """Bind the gateway."""
        self._gateway = gateway

    async def alive(self, request: Request) -> Response:
        """200 while the event loop turns."""
        return _json(200, {"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """200 with the instances that can be had by model, 503 if there is none or the gateway drains."""
        gateway = self._gateway
        routable = gateway.routable()
        told = {"ready": bool(np.any(routable)) and not gateway.draining, "draining": gateway.draining}
        models: dict[str, list[str]] = {model: [] for model in gateway.pool.models}
        for instance, usable in zip(gateway.pool.instances, routable.tolist(), strict=True):
            if usable:
                models[instance.tier.model].append(instance.name)
        return _json(200 if told["ready"] else 503, {**told, "models": models})

    async def models(self, request: Request) -> Response:
        """The names that a request may give: free choice first, then the pool's models."""
        gateway = self._gateway
        longest = {
            tier.model: max(t.limits.max_model_len for t in gateway.pool.tiers if t.model == tier.model)
            for tier in gateway.pool.tiers
        }
        data = [
            {
                "id": name,
                "object": "model",
                "created": 0,
                "owned_by": "rbx" if name in FREE_MODELS else gateway.pool.name,
                "max_model_len": longest.get(name, max(longest.values())),
            }
            for name in gateway.models
        ]
        return _json(200, {"object": "list", "data": data})

    async def described(self, request: Request) -> Response:
        """The API's description."""
        return _json(200, openapi())

    async def metrics(self, request: Request) -> Response:
        """Prometheus's text format."""
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return Response(self._gateway.metrics.page(), headers={"content-type": kind})


def _json(status: int, data: object) -> Response:
    return Response(orjson.dumps(data), status, {"content-type": "application/json"})


async def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return Response(error.body, error.status, {"content-type": "application/json", **error.headers})


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}"
    told = ApiError(error.status_code, message, code=_CODES.get(error.status_code))
    told.headers.update(error.headers or {})
    return await _api_error(request, told)


async def _own_fault(request: Request, error: Exception) -> Response:
    """The server logs the error itself; the client hears nothing of its inside."""
    return await _api_error(request, internal())
