"""What comes in over HTTP, before anybody has looked into it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from starlette.types import Receive, Scope

from rbx.serve.gateway.errors import ApiError
from rbx.serve.gateway.request import MAX_BODY_BYTES

_ID = re.compile(r"[!-~]{1,128}")


class ClientLeft(Exception):
    """The client left before its request was there."""


def headers_of(scope: Scope) -> dict[str, str]:
    """By lower-case name; of a header given twice the last."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def request_id(headers: Mapping[str, str]) -> str | None:
    """The client's own name for its request, where it is one that a header can carry."""
    given = headers.get("x-request-id", "")
    return given if _ID.fullmatch(given) else None


async def read_body(receive: Receive, headers: Mapping[str, str]) -> bytes:
    """All of the body; raises ``ApiError`` (413) beyond the bound and ``ClientLeft``."""
    length = headers.get("content-length", "")
    if length.isascii() and length.isdecimal() and int(length) > MAX_BODY_BYTES:
        raise _too_large()
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise _too_large()
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


async def until_left(receive: Receive) -> None:
    """Return when the client has left; what else it sends is not looked at."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _too_large() -> ApiError:
    message = f"the body is larger than {MAX_BODY_BYTES >> 20} MiB"
    return ApiError(413, message, code="body_too_large", headers={"connection": "close"})
