"""One mock server: an engine, a port, and what is wrong with them."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from rbx.config.faults import AnyFault, TelemetryFault
from rbx.config.pool import Instance
from rbx.serve.mock.completions import Completions
from rbx.serve.mock.fault_book import Condition, FaultBook, RequestFaults
from rbx.serve.mock.listener import HOST, Listener
from rbx.serve.mock.metrics_page import CONTENT_TYPE, metrics_page
from rbx.serve.mock.paced_engine import PacedEngine
from rbx.serve.mock.refusal import error_object

VERSION = "0.32.0"  # of vLLM, whose shapes are served
_GARBAGE = '<html><body>502 Bad Gateway</body></html>\nvllm:num_requests_running{engine="0" ?? 7\n'


class MockInstance:
    """Serves one instance of a pool; to be used within one event loop."""

    def __init__(
        self,
        instance: Instance,
        sock: socket.socket,
        time_scale: float,
        seed: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Own ``sock``, a bound one; nothing is served before ``start``."""
        self.name, self.tier, self.seed = instance.name, instance.tier, seed
        self.engine = PacedEngine(self.tier, time_scale, loop)
        self._loop, self._time_scale = loop, time_scale
        self._book = self._book_of(())
        self._condition = Condition()
        self._stale_page: str | None = None
        self._changes: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()  # held while the condition changes
        self._listener = Listener(self._app(), sock)

    @property
    def url(self) -> str:
        """The API's base."""
        return f"http://{HOST}:{self._listener.port}/v1"

    @property
    def faults(self) -> tuple[AnyFault, ...]:
        """Those in force."""
        return self._book.faults

    @property
    def open_connections(self) -> int:
        """Connections that clients hold now."""
        return self._listener.open_connections

    async def start(self) -> None:
        """Take connections."""
        await self._listener.accept()

    async def close(self) -> None:
        """End everything and give up the port."""
        async with self._turn:
            self._forget_script()
            self.engine.close()
            await self._listener.close()
        if self._changes is not None:
            await asyncio.wait([self._changes])

    async def set_faults(self, faults: tuple[AnyFault, ...]) -> None:
        """Put ``faults`` in force from now on in the place of those before."""
        async with self._turn:
            self._forget_script()
            self._book = self._book_of(faults)
            await self._come_into(self._book.condition(self._loop.time()))
            self._changes = asyncio.ensure_future(self._follow_script())

    def next_request(self) -> RequestFaults | None:
        """See ``Served.next_request``."""
        return None if self._condition.refusing else self._book.for_request(self._loop.time())

    def reset(self, client: Any) -> None:
        """See ``Served.reset``."""
        self._listener.reset(client)

    async def _follow_script(self) -> None:
        while (at_s := self._book.next_change_s(self._loop.time())) is not None:
            await asyncio.sleep(max(0.0, at_s - self._loop.time()))
            async with self._turn:
                await self._come_into(self._book.condition(self._loop.time()))

    def _forget_script(self) -> None:
        """Only with the turn held: a change of condition is never broken off in the middle."""
        if self._changes is not None:
            self._changes.cancel()

    def _book_of(self, faults: tuple[AnyFault, ...]) -> FaultBook:
        return FaultBook(faults, self._loop.time(), random.Random(f"{self.seed}/{self.name}"))

    async def _come_into(self, condition: Condition) -> None:
        before, self._condition = self._condition, condition
        if condition.rate != before.rate:
            self.engine.set_rate(self._time_scale * condition.rate)
        if condition.telemetry != before.telemetry:
            self._stale_page = self._page()
        if condition.refusing:
            await self._listener.refuse()
        else:
            await self._listener.accept()
        if condition.down:
            self._listener.reset_all()
            self.engine.abort_all()

    def _app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", Completions(self, "chat"), methods=["POST"]),
                Route("/v1/completions", Completions(self, "completions"), methods=["POST"]),
                Route("/v1/models", self._models),
                Route("/health", self._health),
                Route("/version", self._version),
                Route("/metrics", self._metrics),
                Route("/reset_prefix_cache", self._reset_prefix_cache, methods=["POST"]),
            ]
        )

    async def _models(self, request: Request) -> Response:
        entry = {
            "id": self.tier.model,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "vllm",
            "root": self.tier.model,
            "parent": None,
            "max_model_len": self.tier.limits.max_model_len,
        }
        return JSONResponse({"object": "list", "data": [entry]})

    async def _health(self, request: Request) -> Response:
        return Response()

    async def _version(self, request: Request) -> Response:
        # Beside vLLM's own key: whoever measures here is to know that it is a simulation.
        return JSONResponse({"version": VERSION, "rbx_mock": {"time_scale": self._time_scale}})

    async def _reset_prefix_cache(self, request: Request) -> Response:
        """There is none; as vLLM in its development mode, no while requests hold blocks."""
        seen = self.engine.telemetry()
        return JSONResponse({"success": not (seen.running[0] or seen.waiting[0])})

    async def _metrics(self, request: Request) -> Response:
        fault = self._condition.telemetry
        if fault is not None and fault.mode == "hang":
            while not await request.is_disconnected():  # until the client gives up
                await asyncio.sleep(0.05)
            return Response()
        if fault is not None and fault.mode == "status":
            return JSONResponse(error_object(500, "the mock server's telemetry failed"), 500)
        return PlainTextResponse(self._faulty_page(fault), media_type=CONTENT_TYPE)

    def _faulty_page(self, fault: TelemetryFault | None) -> str:
        if fault is None:
            return self._page()
        if fault.mode == "stale":
            return self._stale_page or ""
        if fault.mode == "garbage":
            return _GARBAGE
        bad = "NaN" if fault.mode == "nan" else "-1.0"
        return "".join(
            line.rsplit(" ", 1)[0] + f" {bad}\n" if line.startswith("vllm:") else line
            for line in self._page().splitlines(keepends=True)
        )

    def _page(self) -> str:
        seen = self.engine.telemetry()
        return metrics_page(self.tier, seen, self.engine.tally, self.engine.preemptions(), self._loop.time())
