"""Parts of answers, as servers word them."""

from __future__ import annotations

import json
from typing import Any


def event(document: Any) -> bytes:
    """A whole event."""
    text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
    return b"data: " + text.encode() + b"\n\n"


def delta(said: dict[str, Any], reason: str | None = None, **more: Any) -> bytes:
    """A chunk of a chat stream."""
    return event({"choices": [{"index": 0, "delta": said, "finish_reason": reason}], **more})


def usage(output_tokens: int, input_tokens: int = 9, **more: Any) -> dict[str, Any]:
    """The key ``usage`` of a chunk."""
    return {"usage": {"prompt_tokens": input_tokens, "completion_tokens": output_tokens, **more}}


def last_usage(output_tokens: int, **more: Any) -> bytes:
    """A chunk of usage alone."""
    return event({"choices": [], **usage(output_tokens, **more)})


ROLE = delta({"role": "assistant", "content": ""})
STOP = delta({}, "stop")
DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"
