"""One request inside a paced engine: how many of its tokens are there, and who waits for more."""

from __future__ import annotations

import asyncio


class ClientLeft(Exception):
    """The request was aborted; nothing more will come."""


class Ticket:
    """Belongs to one event loop; ``slot`` is its place in the engine and may change."""

    def __init__(
        self, slot: int, prompt_tokens: int, output_tokens: int, by_length: bool, at_s: float
    ) -> None:
        """``at_s`` is the loop's time of arrival."""
        self.slot = slot
        self.prompt_tokens, self.output_tokens = prompt_tokens, output_tokens
        self.finish_reason = "length" if by_length else "stop"
        self.at_s = at_s
        self.tokens = 0
        self.left = False
        self._waiter: asyncio.Future[None] | None = None

    def give(self, tokens: int) -> None:
        """So many tokens are there in all."""
        self.tokens = tokens
        self._wake()

    def leave(self) -> None:
        """Nothing more will come."""
        self.left = True
        self._wake()

    async def beyond(self, had: int) -> int:
        """Wait for more than ``had`` tokens; returns how many there are. Raises ``ClientLeft``."""
        while self.tokens <= had and not self.left:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self.left:
            raise ClientLeft
        return self.tokens

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
