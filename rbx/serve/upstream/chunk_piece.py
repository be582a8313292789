"""A chunk's meaning in the terms of an exchange."""

from __future__ import annotations

from rbx.label.redaction import Redaction
from rbx.load.completion_chunk import ChunkError, CompletionChunk
from rbx.serve.exchange import Piece, UpstreamFault, Usage
from rbx.serve.upstream.refusal import refusal


def chunk_piece(raw: bytes, chunk: CompletionChunk, at_s: float, tokens: int = 0) -> Piece:
    """The piece that ``raw`` is."""
    usage = None
    if chunk.output_tokens is not None:
        usage = Usage(chunk.input_tokens, chunk.output_tokens)
    reason = None
    for delta in chunk.deltas:
        reason = delta.finish_reason or reason
    error = chunk.error.message if chunk.error else None
    return Piece(raw, at_s, tokens, usage, reason, error)


def told_error(error: ChunkError, raw: bytes, redaction: Redaction) -> UpstreamFault:
    """The fault of an answer that began as a success and holds an error instead of a token.

    Where the error names an HTTP status, that decides who is to blame; else it is the instance.
    A server may quote the request's headers: ``redaction`` takes the key out of its words.
    """
    status = error.code if error.code is not None and 400 <= error.code < 600 else None
    retryable, counts = refusal(status or 500)
    detail = redaction.message(error.message)
    return UpstreamFault("error", detail, retryable, counts, status, redaction.body(raw))
