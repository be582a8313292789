"""The bytes of an answer: events of a stream in vLLM's shape, or one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from rbx.serve.mock.asked import Asked

DONE = b"data: [DONE]\n\n"
_MARK = "\0text\0"


def event(document: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + orjson.dumps(document) + b"\n\n"


def usage_object(prompt_tokens: int, output_tokens: int) -> dict[str, Any]:
    """What a server says it counted."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + output_tokens,
        "completion_tokens": output_tokens,
    }


class Wire:
    """Encodes one answer; an event of text costs one concatenation."""

    def __init__(self, asked: Asked, answer_id: str, created: int, model: str) -> None:
        """``created`` in seconds since 1970."""
        self._asked = asked
        chat = asked.api == "chat"
        kind = ("chat.completion" if chat else "text_completion") + (
            ".chunk" if chat and asked.stream else ""
        )
        self._head: dict[str, Any] = {"id": answer_id, "object": kind, "created": created, "model": model}
        self._before, self._after = self._frame(None)
        self._last_before, self._last_after = self._frame("length" if asked.by_length else "stop")

    def opening(self) -> bytes:
        """What comes before the first text."""
        if self._asked.api != "chat":
            return b""
        delta = {"role": "assistant", "content": ""}
        return event(self._head | {"choices": [self._choice({"delta": delta}, None)]})

    def texts(self, words: Sequence[str], first: int, end: int) -> bytes:
        """One event each for the tokens ``first`` to ``end`` of all ``words``."""
        parts = []
        for k in range(first, end):
            word = orjson.dumps(words[k])
            if self._asked.usage_always:
                parts.append(self._with_usage(words[k], k + 1, last=k + 1 == len(words)))
            elif k + 1 == len(words):
                parts += [self._last_before, word, self._last_after]
            else:
                parts += [self._before, word, self._after]
        return b"".join(parts)

    def usage(self, usage: dict[str, Any] | None) -> bytes:
        """The event after the last text."""
        return event(self._head | {"choices": [], "usage": usage})

    def cut_event(self) -> bytes:
        """An event whose JSON breaks off."""
        whole = event(self._head)
        return whole[: len(whole) // 2] + b"\n\n"

    def whole(self, words: Sequence[str], usage: dict[str, Any] | None, leave_out: bool) -> bytes:
        """A plain answer; ``leave_out`` drops the key of the usage."""
        text = "".join(words)
        content: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None, "tool_calls": []}
        said: dict[str, Any] = {"message": content} if self._asked.api == "chat" else {"text": text}
        choice = self._choice(said, "length" if self._asked.by_length else "stop")
        document = self._head | {"choices": [choice]} | ({} if leave_out else {"usage": usage})
        return orjson.dumps(document)

    def _frame(self, finish_reason: str | None) -> tuple[bytes, bytes]:
        said: dict[str, Any] = {"delta": {"content": _MARK}} if self._asked.api == "chat" else {"text": _MARK}
        whole = event(self._head | {"choices": [self._choice(said, finish_reason)]})
        before, _, after = whole.partition(orjson.dumps(_MARK))
        return before, after

    def _with_usage(self, word: str, tokens: int, last: bool) -> bytes:
        said: dict[str, Any] = {"delta": {"content": word}} if self._asked.api == "chat" else {"text": word}
        reason = ("length" if self._asked.by_length else "stop") if last else None
        usage = usage_object(self._asked.prompt_tokens, tokens)
        return event(self._head | {"choices": [self._choice(said, reason)], "usage": usage})

    @staticmethod
    def _choice(said: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": finish_reason}
        return choice | ({"stop_reason": None} if finish_reason else {})
