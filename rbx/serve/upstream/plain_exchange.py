"""An answer that came whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from rbx.serve.exchange import Piece


class PlainExchange:
    """An ``Exchange`` of one piece; its connection has gone back already."""

    def __init__(self, status: int, headers: Mapping[str, str], piece: Piece) -> None:
        """``piece`` holds the body."""
        self.status = status
        self.headers = headers
        self._piece = piece

    async def pieces(self) -> AsyncIterator[Piece]:
        """The body."""
        yield self._piece

    async def close(self) -> None:
        """Nothing is under way."""
