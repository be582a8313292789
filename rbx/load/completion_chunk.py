"""What one JSON document of an OpenAI answer says: a chunk of a stream, or a whole plain answer."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import orjson

DONE = b"[DONE]"
COUNT_LIMIT = 2**31  # of tokens; what is stored are 32-bit numbers
ABSURD = 2  # times what was asked for; a server may count an end token, or one too many, but not this


class Delta(NamedTuple):
    """What a chunk adds to one choice; ``calls`` tells that it holds part of a tool call."""

    choice: int
    content: str = ""
    reasoning: str = ""
    calls: bool = False
    finish_reason: str | None = None

    @property
    def is_output(self) -> bool:
        """Whether it holds something a model wrote; a chunk with the role alone does not."""
        return bool(self.content or self.reasoning or self.calls)


class ChunkError(NamedTuple):
    """An error object inside an answer that began as a success; ``code`` where it names an HTTP status."""

    message: str
    code: int | None = None


class CompletionChunk(NamedTuple):
    """Deltas by choice, the server's counts where it gives valid ones, and an error it tells.

    ``cached_tokens`` are those of the input that its prefix cache held.
    """

    deltas: tuple[Delta, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    error: ChunkError | None = None
    cached_tokens: int | None = None


def read_chunk(data: bytes) -> CompletionChunk | None:
    """The meaning of a JSON document; None where it is no JSON object.

    Reads both APIs, streamed (``delta``, ``text``) or not (``message``), and tolerates what is not in
    them: fields of a wrong type count as absent. Half of a surrogate pair or of an UTF-8 character, which
    some servers send when they cut a text in two, costs that character only.
    """
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        document = _lenient(data)
    if not isinstance(document, dict):
        return None
    error = document.get("error")
    if error is None and document.get("object") == "error":
        error = document  # vLLM's older shape
    usage = document.get("usage")
    choices = document.get("choices")
    if not isinstance(usage, dict):
        usage = None
    return CompletionChunk(
        _deltas(choices) if isinstance(choices, list) else (),
        _count(usage.get("prompt_tokens")) if usage else None,
        _count(usage.get("completion_tokens")) if usage else None,
        None if error is None else _error(error),
        _cached(usage) if usage else None,
    )


class TokenTally:
    """Turns the chunks of one stream into counts of new tokens.

    A chunk that holds output counts for as many tokens as the server's own count of its choice has risen
    since (``continuous_usage_stats``), else for one per choice: with several tokens a chunk and no counts
    the sum is too small, and the usage at the end of the stream is to be believed. vLLM gives such counts
    by choice, and the sum over all choices in a last chunk that has none.
    """

    def __init__(self) -> None:
        """Nothing counted yet."""
        self._counted: dict[int, int] = {}
        self._told: dict[int, int] = {}

    def new_tokens(self, chunk: CompletionChunk) -> int:
        """Tokens of output in ``chunk``, 0 where it holds none."""
        counted = self._counted
        if len(chunk.deltas) == 1 and chunk.output_tokens is not None:
            delta = chunk.deltas[0]
            if not delta.is_output:
                return 0
            before = counted.get(delta.choice, 0)
            # A server that counts on while its count stands still, or falls, has a wrong count.
            now = chunk.output_tokens if chunk.output_tokens > before else before + 1
            counted[delta.choice] = now
            return now - before
        new = 0
        for delta in chunk.deltas:
            if delta.is_output:
                counted[delta.choice] = counted.get(delta.choice, 0) + 1
                new += 1
        return new

    def risen(self, chunk: CompletionChunk) -> bool:
        """Whether the server's count of a choice rose, be it for tokens whose text is held back."""
        if len(chunk.deltas) != 1 or chunk.output_tokens is None:
            return False
        index = chunk.deltas[0].choice
        before = self._told.get(index, 0)
        self._told[index] = max(before, chunk.output_tokens)
        return chunk.output_tokens > before


def _deltas(choices: list[Any]) -> tuple[Delta, ...]:
    if len(choices) == 1:
        return (_delta(choices[0]),) if isinstance(choices[0], dict) else ()
    return tuple(_delta(choice) for choice in choices if isinstance(choice, dict))


def _delta(choice: dict[str, Any]) -> Delta:
    index = choice.get("index", 0)
    reason = choice.get("finish_reason")
    said = choice.get("delta", choice.get("message"))
    content: Any
    reasoning: Any = ""
    calls = False
    if isinstance(said, dict):
        content = said.get("content") or said.get("refusal")
        reasoning = said.get("reasoning_content") or said.get("reasoning")
        calls = bool(said.get("tool_calls") or said.get("function_call"))
    else:
        content = choice.get("text")
    return Delta(
        index if type(index) is int else 0,
        content if isinstance(content, str) else "",
        reasoning if isinstance(reasoning, str) else "",
        calls,
        reason if isinstance(reason, str) else None,
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < COUNT_LIMIT else None


def _cached(usage: dict[str, Any]) -> int | None:
    details = usage.get("prompt_tokens_details")
    return _count(details.get("cached_tokens")) if isinstance(details, dict) else None


def _error(error: Any) -> ChunkError:
    if not isinstance(error, dict):
        return ChunkError(str(error))
    code = error.get("code")
    return ChunkError(str(error.get("message", error)), code if type(code) is int else None)


def _lenient(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
