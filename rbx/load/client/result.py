"""How one request went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Status = Literal["ok", "error", "timeout", "cancelled", "not_sent"]
STATUSES: tuple[Status, ...] = get_args(Status)
LoadFaultKind = Literal[
    "refused",  # error: no connection
    "status",  # error: an HTTP status other than 2xx
    "cut",  # error: the connection or the body ended before the answer did
    "malformed",  # error: no HTTP, no event stream, no JSON
    "error_event",  # error: an error inside a 2xx
    "empty",  # error: a 2xx that ends in good order and holds no answer
    "connect_timeout",  # timeout: no connection within connect_s
    "first_token_timeout",  # timeout: a stream without a token within first_token_s
    "stalled",  # timeout: a stream without progress for between_tokens_s
    "total_timeout",  # timeout: not done within total_s
    "drain",  # timeout (not_sent where it waited for a connection): not done when the drain ended
    "stopped",  # cancelled or not_sent: the run was stopped
]
TokensSource = Literal["usage", "recount", "chunks"]


@dataclass(frozen=True)
class LoadResult:
    """One request's outcome; one line of the journal.

    Times are seconds from the common start, None where it never happened:

    - ``sent_s``: the client began with it, by writing it on an open connection or by opening one;
    - ``first_byte_s``: the read that brought the answer's first byte;
    - ``first_token_s``: the read of the first content, reasoning or part of a tool call; role-only and
      empty chunks are none. A plain answer shows its first token with its end;
    - ``first_answer_s``: likewise without reasoning;
    - ``last_token_s``: the read of the last of these;
    - ``done_s``: the read that made the answer whole (``[DONE]``, the end of the body), or when it was
      given up or lost.

    ``chunk_s`` and ``chunk_tokens`` hold the chunks with output: a count is the rise of the server's own
    running count where it gives one, else 1, so that their sum may be below ``output_tokens``.
    ``output_tokens`` is the server's final count (``tokens_source`` usage), else the sum of
    ``chunk_tokens`` (chunks) or that of a tokenizer (recount, ``rbx.load.client.recount``);
    None where no answer began. ``usage_disagrees``: the server counted fewer tokens than chunks or than it
    had counted before, more than there can be, or a recount is far from it. ``headers`` holds ``x-rbx-*`` and
    ``x-request-id`` of the answer, and what the gateway tells in a comment at a stream's end. Where texts are
    not kept ``text`` and ``reasoning`` are empty, and the two hashes are those of the text
    (``rbx.load.client.hashed``).
    """

    request: int
    status: Status
    fault: LoadFaultKind | None
    detail: str | None
    http_status: int | None
    scheduled_s: float
    sent_s: float | None
    first_byte_s: float | None
    first_token_s: float | None
    first_answer_s: float | None
    last_token_s: float | None
    done_s: float | None
    chunk_s: tuple[float, ...]
    chunk_tokens: tuple[int, ...]
    input_tokens: int | None
    output_tokens: int | None
    tokens_source: TokensSource
    usage_disagrees: bool
    cached_tokens: int | None
    finish_reason: str | None
    text: str
    reasoning: str
    headers: Mapping[str, str]
    text_sha256: str | None = None
    fingerprint: str | None = None


def not_sent(request: int, scheduled_s: float, fault: LoadFaultKind | None = None) -> LoadResult:
    """A request that never left."""
    return LoadResult(
        request=request,
        status="not_sent",
        fault=fault,
        detail=None,
        http_status=None,
        scheduled_s=scheduled_s,
        sent_s=None,
        first_byte_s=None,
        first_token_s=None,
        first_answer_s=None,
        last_token_s=None,
        done_s=None,
        chunk_s=(),
        chunk_tokens=(),
        input_tokens=None,
        output_tokens=None,
        tokens_source="chunks",
        usage_disagrees=False,
        cached_tokens=None,
        finish_reason=None,
        text="",
        reasoning="",
        headers={},
    )
