"""Tokens of an answer, counted from its text where the server reports none, and beside it where it does."""

from __future__ import annotations

from typing import Literal, NamedTuple

from rbx.label.completion import Completion
from rbx.label.tokenizer import TokenCounter

TokensSource = Literal["usage", "recount"]
# Servers count the token that ends an answer, which is not in its text.
TOLERANCE_TOKENS = 1


class TokenCounts(NamedTuple):
    """Tokens of one answer and who counted them; None where nobody did.

    ``input_tokens`` are the server's, with the chat template around the prompt. ``recount`` stands beside
    ``output_tokens`` whatever their source.
    """

    input_tokens: int | None
    output_tokens: int | None
    source: TokensSource | None
    recount: int | None


def count_tokens(completion: Completion, counter: TokenCounter | None) -> TokenCounts:
    """The server's counts where it has any, else a recount, else none.

    A server that reports zero tokens of a prompt, or of a text, reports nothing.
    """
    recount = counter.counts([completion.text])[0] if counter else None
    input_tokens = completion.input_tokens or None
    if completion.output_tokens is not None and (completion.output_tokens > 0 or not completion.text):
        return TokenCounts(input_tokens, completion.output_tokens, "usage", recount)
    return TokenCounts(input_tokens, recount, None if recount is None else "recount", recount)


def disagrees(output_tokens: int | None, source: str | None, recount: int | None) -> bool:
    """Whether a server's count and the recount are further apart than the token that ends an answer."""
    if source != "usage" or output_tokens is None or recount is None:
        return False
    return abs(output_tokens - recount) > TOLERANCE_TOKENS
