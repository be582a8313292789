"""Questions to a target and its servers: bounded in time and size, and never following a redirect."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from rbx.label.proxy import environment_proxy
from rbx.serve.watch.fetch import MOST_BYTES, Unanswered

ANSWER_S = 5.0
_SHOWN = 300  # characters of what a server says


@dataclass(frozen=True)
class Answer:
    """Status and body, whatever the status."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether it is a success."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body; bytes that are no UTF-8 are replaced."""
        return self.body.decode("utf-8", "replace")

    @property
    def json(self) -> Any:
        """The body read as JSON; None where it is none."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None

    @property
    def said(self) -> str:
        """The error's message where there is one, else how the body begins."""
        data = self.json
        inner = data.get("error", data) if isinstance(data, dict) else None
        message = inner.get("message") if isinstance(inner, dict) else None
        return message if isinstance(message, str) else self.text[:_SHOWN]


class Asker:
    """Asks over one session, whose owner closes it."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        """Nothing is asked yet."""
        self._session = session

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> Answer:
        """See ``send``."""
        return await self.send("GET", url, headers)

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        within_s: float = ANSWER_S,
    ) -> Answer:
        """The answer; raises ``Unanswered`` where none came, ``ConfigError`` for a proxy that is none."""
        asking = self._session.request(
            method,
            url,
            headers=headers,
            data=body,
            proxy=environment_proxy(url),
            timeout=aiohttp.ClientTimeout(total=within_s),
            allow_redirects=False,
        )
        try:
            async with asking as answer:
                content = bytearray()
                async for chunk in answer.content.iter_any():
                    content += chunk
                    if len(content) > MOST_BYTES:
                        raise Unanswered("too large")
                return Answer(answer.status, bytes(content))
        except asyncio.TimeoutError:
            raise Unanswered("timeout") from None
        except aiohttp.ClientConnectorError:
            raise Unanswered("refused") from None
        except (aiohttp.ClientError, OSError, ValueError):
            raise Unanswered("broken") from None


def bearer(key: str | None) -> dict[str, str]:
    """The header that carries ``key``."""
    return {"Authorization": f"Bearer {key}"} if key else {}
