"""Serving a gateway until a signal ends it: what is under way is finished first."""

from __future__ import annotations

import asyncio
import gc
import socket
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from rbx.serve.gateway.gateway import Gateway
from rbx.serve.gateway.listener import Listener, allow_open_files

BACKLOG = 2048
_LOOK_S = 0.05
_CUT_S = 1  # for what is under way still, once its time to end is over


class GatewayServer(uvicorn.Server):
    """At the first signal the gateway drains: it listens still, but ``/readyz`` and new requests get 503.

    What is under way has ``drain_s`` to end, or until a second signal; what has not is then answered with 503
    or an error event. Then the server stops and ``run`` returns; whoever called it cleans up.
    """

    def __init__(self, app: Starlette, gateway: Gateway, *, host: str, port: int, drain_s: float) -> None:
        """Listen on ``host`` and ``port``; 0 is a free one."""
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            http=Listener,
            ws="none",
            log_level="warning",
            access_log=False,
            lifespan="on",
            backlog=BACKLOG,
            server_header=False,
            timeout_graceful_shutdown=_CUT_S,
        )
        super().__init__(config)
        self._gateway = gateway
        self._drain_s = drain_s

    @property
    def port(self) -> int:
        """Where it listens, once ``started``."""
        return int(self.servers[0].sockets[0].getsockname()[1])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen; what was built until now is there to stay, and no collection looks at it again."""
        allow_open_files()
        await super().startup(sockets)
        gc.collect()
        gc.freeze()

    async def main_loop(self) -> None:
        """Serve until told to stop, then drain."""
        await super().main_loop()
        draining = asyncio.ensure_future(self._gateway.drain(self._drain_s))
        while not (draining.done() or self.force_exit):
            await asyncio.wait({draining}, timeout=_LOOK_S)
        draining.cancel()
        if self._gateway.in_flight:
            self._gateway.cut()
            await self._gateway.drain(_CUT_S)
        # The rest is bounded too, and the application is still to be told of the end.
        self.force_exit = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal, which is not raised again afterwards as uvicorn would."""
        self.force_exit = self.should_exit
        self.should_exit = True
