"""One HTTP/1.1 connection: a request at a time, each read stamped before it is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

import httptools

NOT_HTTP = "the server does not speak HTTP"


class Receiver(Protocol):
    """Who gets a response."""

    def begun(self, at_s: float) -> None:
        """The first byte came."""

    def head(self, status: int, headers: list[tuple[str, str]]) -> None:
        """The head is there."""

    def body(self, data: bytes, at_s: float) -> None:
        """Part of the body."""

    def ended(self, at_s: float, lost: str | None) -> None:
        """The body ended in good order, or the connection was lost, and why."""

    def garbage(self, detail: str, at_s: float) -> None:
        """What came is no HTTP."""


class Connection(asyncio.Protocol):
    """Writes a request, and feeds the response to its receiver.

    ``free`` is called once the response has ended and the next request may be sent, ``gone`` when the
    connection is closed.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        free: Callable[[Connection], None],
        gone: Callable[[Connection], None],
    ) -> None:
        """``clock`` stamps reads."""
        self._clock = clock
        self._free, self._gone = free, gone
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._busy = False  # a response is under way, whether or not anybody wants it
        self._begun = False
        self._complete = False
        self._stays = False
        self._until_close = False  # the body ends with the connection
        self._read_s = 0.0
        self._ending: asyncio.TimerHandle | None = None
        self._headers: list[tuple[str, str]] = []
        self.idle_since_s = 0.0
        self.idle_limit_s: float | None = None  # where the server tells one
        self.closed = False

    def send(self, data: bytes, receiver: Receiver) -> None:
        """Write a request; the connection must be free."""
        assert self._transport is not None
        self._receiver, self._busy = receiver, True
        self._begun = self._complete = self._until_close = False
        self._headers = []
        self._transport.write(data)

    def let_go(self, within_s: float) -> None:
        """The receiver wants nothing more; a response that does not end ``within_s`` is broken off."""
        self._receiver = None
        if not self._busy or self.closed:
            return
        if within_s > 0.0:
            self._ending = asyncio.get_running_loop().call_later(within_s, self.abort)
        else:
            self.abort()

    def abort(self) -> None:
        """Close at once, which tells the server to stop."""
        self._receiver = None
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        """Stamp, then parse."""
        self._read_s = self._clock()
        if self.closed:
            return
        if not self._busy:
            self.abort()  # nobody asked: whatever this is, no answer may be mixed up with it
            return
        if not self._begun:
            self._begun = True
            if self._receiver is not None:
                self._receiver.begun(self._read_s)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            raise (error.__context__ or error) from None  # a receiver's own failure is none of the server's
        except httptools.HttpParserUpgrade:
            self._fail(f"{NOT_HTTP}: it switches to another protocol")
        except httptools.HttpParserError as error:
            self._fail(f"{NOT_HTTP}: {error}")
        if self._complete and not self.closed:
            self._end()

    def eof_received(self) -> bool:
        """Close as well."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the receiver, and whoever keeps connections."""
        self.closed = True
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            in_order = self._until_close and exc is None
            why = None if in_order else f"connection lost{f': {exc}' if exc else ''}"
            receiver.ended(self._clock(), why)
        self._gone(self)

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep it."""
        self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Pass the head on; an interim response (1xx) is none."""
        status = self._parser.get_status_code()
        if status < 200:
            return
        named = dict(self._headers)
        chunked = "chunked" in named.get("transfer-encoding", "").lower()
        self._until_close = not chunked and "content-length" not in named
        self.idle_limit_s = _told_limit(named.get("keep-alive", ""))
        if self._receiver is not None:
            self._receiver.head(status, self._headers)

    def on_body(self, data: bytes) -> None:
        """Pass it on."""
        if self._receiver is not None:
            self._receiver.body(data, self._read_s)

    def on_message_complete(self) -> None:
        """The response ended, unless it was an interim one."""
        if self._parser.get_status_code() < 200:
            self._headers = []
        else:
            self._complete = True
            self._stays = self._parser.should_keep_alive()

    def _end(self) -> None:
        receiver, self._receiver = self._receiver, None
        self._busy = False
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        if receiver is not None:
            receiver.ended(self._read_s, None)
        if self._stays and not self.closed:
            self.idle_since_s = self._read_s
            self._free(self)
        else:
            self.abort()

    def _fail(self, why: str) -> None:
        receiver = self._receiver
        self.abort()
        if receiver is not None:
            receiver.garbage(why, self._read_s)


def _told_limit(keep_alive: str) -> float | None:
    """Seconds of ``Keep-Alive: timeout=5``."""
    for part in keep_alive.split(","):
        name, _, value = part.strip().partition("=")
        if name.lower() == "timeout" and value.isascii() and value.isdigit():
            return float(value)
    return None
