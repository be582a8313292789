"""Streamed completions over plain sockets: on two cores a client that costs nothing disturbs nothing."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_TOTAL = re.compile(rb'"completion_tokens":\s*(\d+)')


@dataclass(eq=False)
class Answer:
    """One request as its client saw it; ``tokens`` are (time, tokens so far)."""

    name: str
    prompt_tokens: int
    max_tokens: int
    sent_s: float = 0.0
    tokens: list[tuple[float, int]] = field(default_factory=list)
    done_s: float = float("inf")

    @property
    def first_s(self) -> float:
        """When the first token came; infinite until then."""
        return self.tokens[0][0] if self.tokens else float("inf")

    @property
    def total_tokens(self) -> int:
        """Tokens that came in all."""
        return self.tokens[-1][1] if self.tokens else 0


async def complete(port: int, answer: Answer, body: dict[str, Any], look: Callable[[], None]) -> None:
    """Send one request and follow its stream; fills ``answer``.

    ``look`` is called right before the request goes out. Raises ``RuntimeError`` for a refusal.
    """
    options = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    payload = json.dumps({**body, **options, "max_tokens": answer.max_tokens}).encode()
    head = (
        "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"X-Request-Id: {answer.name}\r\nContent-Length: {len(payload)}\r\nConnection: close\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        look()
        answer.sent_s = time.monotonic()
        writer.write(head.encode() + payload)
        status = await reader.readline()
        if b" 200 " not in status:
            raise RuntimeError(f"{status!r}: {(await reader.read(2000))!r}")
        while line := await reader.readline():
            if line.startswith(b"data: {"):
                found = _TOTAL.search(line)
                total = int(found[1]) if found else 0
                if total > answer.total_tokens:
                    answer.tokens.append((time.monotonic(), total))
            elif line.startswith(b"data: [DONE]"):
                answer.done_s = time.monotonic()
                return
        raise RuntimeError(f"{answer.name}: the stream ended early")
    finally:
        writer.close()
