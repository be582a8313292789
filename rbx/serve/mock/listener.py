"""One port of the loopback interface, served by uvicorn's HTTP protocol, that can refuse and reset."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from rbx.errors import ServerError

HOST = "127.0.0.1"
FAULTS_PATH = "/faults"  # of the control address
_BACKLOG = 2048
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a close drops what is unsent and sends RST
_REBIND_TRIES = 100
_REBIND_PAUSE_S = 0.01
_END_WAIT_S = 2.0


class Listener:
    """A served port; to be used within one event loop."""

    def __init__(self, app: ASGIApp, sock: socket.socket) -> None:
        """Own ``sock``, which is bound; connections are refused until ``accept``."""
        self._config = uvicorn.Config(
            app, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False,
            timeout_keep_alive=75,
        )  # fmt: skip
        self._config.load()
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._bound: socket.socket | None = sock
        self.port = int(sock.getsockname()[1])

    @property
    def open_connections(self) -> int:
        """Connections that clients hold now."""
        return len(self._state.connections)

    async def accept(self) -> None:
        """Take connections."""
        if self._server is not None or self._bound is None:
            return
        loop = asyncio.get_running_loop()
        sock, self._bound = self._bound, None
        self._server = await loop.create_server(self._protocol, sock=sock, backlog=_BACKLOG)

    async def refuse(self) -> None:
        """Refuse connections; the port stays ours, answers under way go on."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for attempt in range(_REBIND_TRIES):  # the loop closes the old socket in its own time
            await asyncio.sleep(0.0 if attempt < 2 else _REBIND_PAUSE_S)
            try:
                self._bound = _bound(self.port)
                return
            except ServerError:
                if attempt + 1 == _REBIND_TRIES:
                    raise

    def reset(self, client: Any) -> None:
        """Reset the connection of ``client``, an ASGI scope's address."""
        for connection in list(self._state.connections):
            if isinstance(connection, HttpToolsProtocol) and connection.client == tuple(client):
                _reset(connection.transport)

    def reset_all(self) -> None:
        """Reset every connection."""
        for connection in list(self._state.connections):
            if isinstance(connection, HttpToolsProtocol):
                _reset(connection.transport)

    async def close(self) -> None:
        """Give the port up and end every connection and task."""
        if self._server is not None:
            self._server.close()
        if self._bound is not None:
            self._bound.close()
        self._server = self._bound = None
        self.reset_all()
        tasks = set(self._state.tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_END_WAIT_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _protocol(self) -> asyncio.Protocol:
        return HttpToolsProtocol(self._config, self._state, {})


def bind_all(ports: Iterable[int]) -> list[socket.socket]:
    """Sockets bound to ``ports``, 0 for a free one; all or, with ``ServerError``, none."""
    with ExitStack() as unless_all:
        sockets = [unless_all.enter_context(_bound(port)) for port in ports]
        unless_all.pop_all()
    return sockets


def _bound(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((HOST, port))
    except OSError as error:
        sock.close()
        why = "is in use" if error.errno == errno.EADDRINUSE else f"can't be used: {error.strerror}"
        raise ServerError(f"port {port} {why}; free it, or choose another one (0: any free one)") from None
    return sock


def _reset(transport: asyncio.Transport) -> None:
    sock = transport.get_extra_info("socket")
    if sock is not None and not transport.is_closing():
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    transport.abort()
