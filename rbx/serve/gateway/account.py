"""What one request costs, and how far its budget goes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rbx.load.completion_chunk import ABSURD
from rbx.serve.exchange import Piece, Usage


@dataclass
class Account:
    """Of one answer of one instance; prices in USD per token.

    ``cap_tokens`` is the limit that went to the server, ``free_cap_tokens`` what it would have been without
    a budget. Input tokens are an estimate until the server says how many it counted. A count that can't be
    true, of more than ``context_tokens`` for a prompt or ``ABSURD`` times the cap, is not believed.
    """

    price_in_usd: float
    price_out_usd: float
    budget_usd: float
    input_tokens: int
    cap_tokens: int
    free_cap_tokens: int
    context_tokens: int
    output_tokens: int = 0
    finish_reason: str | None = None
    cut: bool = False
    disbelieved: bool = False  # the server, in one count at least

    @property
    def budgeted(self) -> bool:
        """Whether the client gave a budget."""
        return math.isfinite(self.budget_usd)

    @property
    def cost_usd(self) -> float:
        """Of all tokens so far."""
        return self.input_tokens * self.price_in_usd + self.output_tokens * self.price_out_usd

    @property
    def exhausted(self) -> bool:
        """The budget ended the answer: its cap, or the cut of the stream."""
        capped = self.cap_tokens < self.free_cap_tokens and self.finish_reason == "length"
        return self.budgeted and (self.cut or capped)

    @property
    def affordable_tokens(self) -> float:
        """Output that the budget has room for, at least 1, with the input as it is known now."""
        if not self.budgeted or self.price_out_usd <= 0.0:
            return math.inf
        left = (self.budget_usd - self.input_tokens * self.price_in_usd) / self.price_out_usd
        return max(1.0, math.floor(max(left, 0.0) * (1.0 + 1e-9)))

    def take(self, piece: Piece) -> None:
        """Count a piece; the server's own count goes before a sum of pieces."""
        self.output_tokens += self._new_tokens(piece)
        self.finish_reason = piece.finish_reason or self.finish_reason
        if piece.usage is not None:
            self._count_input(piece.usage)
            if self._may_have(piece.usage.output_tokens):
                self.output_tokens = piece.usage.output_tokens
            else:
                self.disbelieved = True

    def passes(self, piece: Piece) -> bool:
        """Whether ``piece`` would take the cost beyond the budget; its usage is looked at, not counted."""
        if not self.budgeted or piece.tokens == 0:
            return False
        if piece.usage is not None:
            self._count_input(piece.usage)
        return self.output_tokens + self._new_tokens(piece) > self.affordable_tokens

    @property
    def spent(self) -> bool:
        """No token more is affordable, and the server will not stop here by itself."""
        limit = self.affordable_tokens
        return self.output_tokens >= limit and limit < self.cap_tokens and self.finish_reason is None

    def _new_tokens(self, piece: Piece) -> int:
        """Those of ``piece``; one where the server's count of them can't be."""
        return piece.tokens if self._may_have(piece.tokens) else 1

    def _may_have(self, output_tokens: int) -> bool:
        return 0 <= output_tokens <= ABSURD * self.cap_tokens

    def _count_input(self, usage: Usage) -> None:
        if usage.input_tokens is not None and 0 < usage.input_tokens <= self.context_tokens:
            self.input_tokens = usage.input_tokens
        else:
            self.disbelieved = True
