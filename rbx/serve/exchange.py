"""One request on one instance, as the gateway deals with it: what it asks of an upstream client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from rbx.config.gateway import Deadlines

FaultKind = Literal[
    "refused", "connect_timeout", "first_token_timeout", "stalled", "status", "cut", "malformed", "error"
]


class Usage(NamedTuple):
    """What the server says it counted; it may be wrong, and of the input it may say nothing."""

    input_tokens: int | None
    output_tokens: int


class Piece(NamedTuple):
    """A whole server-sent event (with its blank line), or the whole body of a plain answer.

    ``raw`` is passed on as it came. ``tokens`` are the new tokens of content or reasoning in it, by the
    server's count where it gives one, else one a piece with text; ``usage`` and ``finish_reason`` where the
    piece holds them; ``error`` what an error event inside a 200 says; ``done`` marks the last of a stream.
    """

    raw: bytes
    at_s: float
    tokens: int = 0
    usage: Usage | None = None
    finish_reason: str | None = None
    error: str | None = None
    done: bool = False


@dataclass
class UpstreamFault(Exception):
    """An instance failed a request; ``retryable`` says that another instance may fare better.

    ``error`` is one told inside an answer that began as a success; its ``detail`` is the server's words.

    ``status`` and ``body`` are the server's where it answered; ``counts`` says whether the instance's
    breaker counts it (a refusal of a bad request does not).
    """

    kind: FaultKind
    detail: str
    retryable: bool
    counts: bool = True
    status: int | None = None
    body: bytes = b""

    def __str__(self) -> str:
        """Kind and detail."""
        return f"{self.kind}: {self.detail}"


class Exchange(Protocol):
    """An answer that has begun: its first piece is there."""

    @property
    def status(self) -> int:
        """The HTTP status, 200."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Those worth passing on: the content type, the server's request id."""

    def pieces(self) -> AsyncIterator[Piece]:
        """All pieces from the first on; raises ``UpstreamFault`` when the stream stalls or is cut."""

    async def close(self) -> None:
        """End it; an answer still under way is cancelled at the server by closing the connection."""


class UpstreamInstance(Protocol):
    """One server of the pool."""

    async def send(
        self, path: str, body: Mapping[str, Any], deadlines: Deadlines, request_id: str | None = None
    ) -> Exchange:
        """Send a request body to ``path`` below the API's base; returns with the first piece at hand.

        ``request_id`` is what the server is to call it, by the header ``X-Request-Id``.
        Raises ``UpstreamFault``. Cancelling the task that awaits it cancels the request at the server.
        """

    async def close(self) -> None:
        """Close all connections."""
