"""What comes in over HTTP, before anybody has looked into it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.types import Receive, Scope

from rbx.serve.gateway.errors import ApiError, overloaded
from rbx.serve.gateway.knobs import refuse_repeated
from rbx.serve.gateway.request import MAX_BODY_BYTES

# What all bodies together may hold, from their first byte to the end of their answers.
MAX_HELD_BYTES = 2**29
LARGE_BYTES = 2**16  # a body beyond this is read beside the loop
_ID = re.compile(r"[!-~]{1,128}")
T = TypeVar("T")


class ClientLeft(Exception):
    """The client left before its request was there."""


def headers_of(scope: Scope) -> dict[str, str]:
    """By lower-case name; of a header given twice the last. Raises ``ApiError`` if that is a knob's."""
    found = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    if len(found) < len(scope["headers"]):
        refuse_repeated(name.decode("latin-1") for name, _ in scope["headers"])
    return found


def request_id(headers: Mapping[str, str]) -> str | None:
    """The client's own name for its request, where it is one that a header can carry."""
    given = headers.get("x-request-id", "")
    return given if _ID.fullmatch(given) else None


async def until_left(receive: Receive) -> None:
    """Return when the client has left; what else it sends is not looked at."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Intake:
    """Takes bodies in: so many bytes at once, and what is large beside the loop, one after the other.

    One thread reads the large ones, so that several of them take turns with the loop no more often than
    one does, and none of the threads that decide is held by them.
    """

    def __init__(self, most_held_bytes: int = MAX_HELD_BYTES) -> None:
        """Nothing held."""
        self.held_bytes = 0
        self._most_held_bytes = most_held_bytes
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rbx-bodies")

    async def body(
        self, receive: Receive, headers: Mapping[str, str], most_bytes: int = MAX_BODY_BYTES
    ) -> bytes:
        """All of a body, which counts as held until ``let_go`` of its length.

        Raises ``ApiError``, 413 beyond ``most_bytes`` and 429 beyond what may be held, and ``ClientLeft``.
        """
        length = headers.get("content-length", "")
        if length.isascii() and length.isdecimal() and (len(length) > 18 or int(length) > most_bytes):
            raise _too_large(most_bytes)
        parts: list[bytes] = []
        size, more, whole = 0, True, False
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientLeft
                part = message.get("body", b"")
                size += len(part)
                self.held_bytes += len(part)
                if size > most_bytes:
                    raise _too_large(most_bytes)
                if self.held_bytes > self._most_held_bytes:
                    raise overloaded("too many bytes of requests are held at once", 1.0)
                parts.append(part)
                more = message.get("more_body", False)
            whole = True
        finally:
            if not whole:
                self.let_go(size)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def let_go(self, size: int) -> None:
        """A body of so many bytes is not needed any more."""
        self.held_bytes -= size

    async def read(self, size: int, read: Callable[[], T]) -> T:
        """What ``read`` makes of a body of ``size`` bytes."""
        if size <= LARGE_BYTES:
            return read()
        return await asyncio.get_running_loop().run_in_executor(self._thread, read)

    def close(self) -> None:
        """Read no more large bodies."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _too_large(most_bytes: int) -> ApiError:
    shown = f"{most_bytes >> 20} MiB" if most_bytes >= 2**20 else f"{most_bytes >> 10} KiB"
    message = f"the body is larger than {shown}"
    return ApiError(413, message, code="body_too_large", headers={"connection": "close"})
