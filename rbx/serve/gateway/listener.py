"""HTTP/1.1 as uvicorn speaks it, with deadlines and bounds on what clients send, and take, in return."""

from __future__ import annotations

import asyncio
import functools
import resource
from typing import Any, Literal, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from rbx.serve.gateway.errors import ApiError, unavailable

HEAD_S = 10.0  # for the request line and all headers
MAX_HEAD_BYTES = 2**16
BODY_S = 20.0  # for a body, and as much more as its bytes take at the slowest pace that is served
BODY_BYTES_PER_S = 2**14
UNREAD_S = 60.0  # for a client that takes nothing of its answer, or less than ``UNREAD_BYTES``
UNREAD_BYTES = 2**16
LINGER_S = 1.0  # between a refusal and the end, or the client's system throws the refusal away
_OTHER_FILES = 256


class _HeadTooLarge(Exception):
    pass


@functools.lru_cache
def most_connections() -> int:
    """How many clients may be connected: each may need a connection to an instance as well."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1_000_000
    return max(16, (soft - _OTHER_FILES) // 2)


def allow_open_files() -> None:
    """Raise this process's soft limit on open files as far as the hard one lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 2**20 if hard == resource.RLIM_INFINITY else min(hard, 2**20)
    if soft not in (resource.RLIM_INFINITY, most) and soft < most:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (ValueError, OSError):  # macOS has a lower limit of its own
            return
        most_connections.cache_clear()


class Listener(HttpToolsProtocol):
    """One connection of a client.

    What its client owes is watched by one timer, which is set only where a read leaves a request
    incomplete: requests that come in one piece cost none. While the application does not read a body, or
    an earlier request of the connection is still being served, the client owes nothing.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """As uvicorn makes it."""
        super().__init__(config, server_state, app_state, _loop)
        self._owes: Literal["head", "body"] | None = "head"
        self._owed_since_s = 0.0
        self._came_bytes = 0  # of what it owes
        self._timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._head_is_too_large = False
        self._refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there; it owes the head of a request."""
        super().connection_made(cast(asyncio.Transport, transport))
        if len(self.connections) > most_connections():
            self._refuse(unavailable("too many connections are open", 1.0, "overloaded"))
            return
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone."""
        self._unwatch()
        self._stop_waiting_for_reader()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Part of a request, or several of them."""
        if self._refused:
            return
        self._parse(data)
        if self._owes is None:
            idle = self.cycle is None or self.cycle.response_complete
            if not idle or self.timeout_keep_alive_task is not None:
                self._unwatch()
                return
            self._owe("head")  # a blank line came, which begins no request
            self._watch()
            return
        self._came_bytes += len(data)
        if self._refused or self.transport.is_closing():
            return
        if self._owes == "head" and self._came_bytes > MAX_HEAD_BYTES:
            self._refuse(_head_too_large())
        elif self._timer is None:
            self._watch()

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._owe("head")

    def on_headers_complete(self) -> None:
        """Its head is there."""
        if self.parser.should_upgrade():
            return  # it is parsed anew
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > MAX_HEAD_BYTES:
            self._head_is_too_large = True
            raise _HeadTooLarge
        super().on_headers_complete()
        self._owe("body")

    def on_message_complete(self) -> None:
        """All of it is there."""
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        self._owes = None

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, as OpenAI's API words errors."""
        if self._head_is_too_large:
            self._refuse(_head_too_large())
        else:
            self._refuse(ApiError(400, "the request is no valid HTTP/1.1", code="invalid_http"))

    def pause_writing(self) -> None:
        """The client takes its answer more slowly than it comes."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._stop_waiting_for_reader()
        super().resume_writing()

    def _parse(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            while data:
                data = self._parse_up_to_an_offer(data)
        except httptools.HttpParserError:
            self.logger.warning("a request is no valid HTTP/1.1")
            self.send_400_response("")

    def _parse_up_to_an_offer(self, data: bytes) -> bytes:
        """Parse; returns what is left of ``data`` after a head that offers another protocol.

        The parser takes what follows ``Upgrade`` for the other protocol. A server may pass over the offer
        (RFC 9110, 7.8): a new parser gets the head without it, and then the rest. CONNECT has no body, so
        what follows it is nobody's.
        """
        try:
            self.parser.feed_data(data)
            return b""
        except httptools.HttpParserUpgrade as offer:
            rest = data[offer.args[0] :]
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":
            self.send_400_response("")
            return b""
        lines = [b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        head = b"%b %b HTTP/%b\r\n%b\r\n" % (method, self.url, version, b"".join(lines))
        self.parser = _parser(self)
        self.parser.feed_data(head)
        return rest

    def _owe(self, what: Literal["head", "body"]) -> None:
        self._owes = what
        self._came_bytes = 0
        self._unwatch()

    def _watch(self) -> None:
        self._owed_since_s = self.loop.time()
        self._timer = self.loop.call_later(HEAD_S if self._owes == "head" else BODY_S, self._look)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """The client's time is over, unless it was kept waiting or sends fast enough."""
        self._timer = None
        if self._owes is None or self.transport.is_closing():
            return
        if self.flow.read_paused or self._busy_with_another():
            self._watch()
            return
        if self._owes == "head":
            if self._came_bytes:
                self._refuse(ApiError(408, f"no whole head within {HEAD_S:g} s", code="request_timeout"))
            else:
                self.transport.close()
            return
        left_s = self._owed_since_s + BODY_S + self._came_bytes / BODY_BYTES_PER_S - self.loop.time()
        if left_s > 0.0:
            self._timer = self.loop.call_later(left_s, self._look)
        else:
            self._refuse(ApiError(408, "the body comes too slowly", code="request_timeout"))

    def _busy_with_another(self) -> bool:
        """Whether an earlier request of this connection is still being answered."""
        if self.pipeline:
            return True
        return self._owes == "head" and self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, error: ApiError) -> None:
        """Say why, if nothing else is being said, and hang up."""
        self._refused = True
        self._unwatch()
        self._unset_keepalive_if_required()
        cycle = self.cycle
        answering = cycle is not None and cycle.response_started and not cycle.response_complete
        if answering or self._busy_with_another() or self.transport.is_closing():
            self.transport.close()
            return
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        elif self._owes == "body":  # it has had its answer
            self.transport.close()
            return
        body = error.body
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "connection": "close",
            **error.headers,
        }
        lines = [f"{name}: {value}\r\n".encode() for name, value in headers.items()]
        self.flow.resume_reading()
        self.transport.write(b"".join([STATUS_LINE[error.status], *lines, b"\r\n", body]))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.close)

    def _wait_for_reader(self) -> None:
        if self._unread_timer is None:
            unread = self.transport.get_write_buffer_size()
            self._unread_timer = self.loop.call_later(UNREAD_S, self._look_at_reader, unread)

    def _stop_waiting_for_reader(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _look_at_reader(self, before: int) -> None:
        self._unread_timer = None
        if before - self.transport.get_write_buffer_size() >= UNREAD_BYTES:
            self._wait_for_reader()
        else:
            self.transport.abort()


def _parser(listener: Listener) -> httptools.HttpRequestParser:
    """As uvicorn makes it."""
    parser = httptools.HttpRequestParser(listener)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _head_too_large() -> ApiError:
    message = f"the head of the request is larger than {MAX_HEAD_BYTES >> 10} KiB"
    return ApiError(431, message, code="head_too_large")
