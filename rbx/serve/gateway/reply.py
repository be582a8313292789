"""An HTTP answer, sent piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from starlette.types import Send

from rbx.serve.gateway.errors import ApiError


class Reply:
    """What has been sent to one client; ``status`` is None before anything was.

    Once ``ended`` nothing more can be said.
    """

    def __init__(self, send: Send) -> None:
        """Nothing sent yet."""
        self._send = send
        self.status: int | None = None
        self.ended = False

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Status and headers.

        Headers hold ASCII alone: a value with any other character, such as a model's name in
        ``x-rbx-model``, is percent-encoded as a whole, by its UTF-8 bytes.
        """
        raw = [(name.encode("ascii"), _encoded(value)) for name, value in headers.items()]
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def more(self, body: bytes) -> None:
        """Part of the body."""
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self, body: bytes = b"") -> None:
        """The last part."""
        self.ended = True
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """An answer at once."""
        self.ended = True
        await self.start(status, {**headers, "content-length": str(len(body))})
        await self.end(body)

    async def refuse(self, error: ApiError, headers: Mapping[str, str]) -> None:
        """An error in OpenAI's shape."""
        own = {"content-type": "application/json", **headers, **error.headers}
        await self.whole(error.status, own, error.body)


def _encoded(value: str) -> bytes:
    plain = value.isascii() and value.isprintable()
    return (value if plain else quote(value, errors="replace")).encode("ascii")
