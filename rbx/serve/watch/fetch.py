"""One bounded GET of something that may hang, lie or be gone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import aiohttp

MOST_BYTES = 4 * 2**20  # of a page; those of a busy vLLM have a quarter of a megabyte
_OK = 200

Reason = Literal["timeout", "refused", "broken", "status", "too large", "invalid"]


@dataclass
class Unanswered(Exception):
    """Why there is no answer to use; ``status`` where the server gave one."""

    reason: Reason
    status: int | None = None

    def __str__(self) -> str:
        """Reason and status."""
        return self.reason if self.status is None else f"{self.reason} {self.status}"


async def fetch(
    session: aiohttp.ClientSession, url: str, headers: Mapping[str, str], timeout_s: float
) -> bytes:
    """The body of a 200 within ``timeout_s``; raises ``Unanswered``. No redirect is followed."""
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    try:
        async with session.get(url, headers=headers, timeout=timeout, allow_redirects=False) as answer:
            if answer.status != _OK:
                raise Unanswered("status", answer.status)
            body = bytearray()
            async for chunk in answer.content.iter_any():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise Unanswered("too large")
            return bytes(body)
    except asyncio.TimeoutError:
        raise Unanswered("timeout") from None
    except aiohttp.ClientConnectorError:
        raise Unanswered("refused") from None
    except (aiohttp.ClientError, OSError, ValueError):
        raise Unanswered("broken") from None
