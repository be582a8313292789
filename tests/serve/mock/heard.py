"""What a client hears of an answer, event by event and with its times."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp


@dataclass
class Heard:
    """A streamed answer as far as it came; times are those of ``time.monotonic``."""

    sent_s: float
    status: int = 0
    texts: list[str] = field(default_factory=list)
    text_s: list[float] = field(default_factory=list)
    usage: list[Any] = field(default_factory=list)
    finish_reason: str | None = None
    errors: list[Any] = field(default_factory=list)
    broken: int = 0  # events that are no JSON
    done: bool = False
    cut: BaseException | None = None  # how the connection ended, if not well
    body: bytes = b""

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def take(self, line: bytes, now_s: float) -> None:
        self.body += line
        if not line.startswith(b"data: "):
            return
        data = line[6:].strip()
        if data == b"[DONE]":
            self.done = True
            return
        try:
            event = json.loads(data)
        except ValueError:
            self.broken += 1
            return
        if "error" in event:
            self.errors.append(event["error"])
        if "usage" in event:
            self.usage.append(event["usage"])
        for choice in event.get("choices", []):
            text = choice["text"] if "text" in choice else choice["delta"].get("content")
            if text:
                self.texts.append(text)
                self.text_s.append(now_s)
            self.finish_reason = choice["finish_reason"] or self.finish_reason


def chat(content: str = "What is it?", **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}], **fields}


async def listen(
    session: aiohttp.ClientSession, url: str, leave_after: int | None = None, **fields: Any
) -> Heard:
    """Ask for a streamed chat answer and hear it to its end, or to so many pieces of text."""
    heard = Heard(time.monotonic())
    body = chat(**fields, stream=True)
    try:
        async with session.post(f"{url}/chat/completions", json=body) as response:
            heard.status = response.status
            async for line in response.content:
                heard.take(line, time.monotonic())
                if leave_after is not None and len(heard.texts) >= leave_after:
                    response.close()
                    break
    except (aiohttp.ClientError, asyncio.TimeoutError, ConnectionError) as error:
        heard.cut = error
    return heard


def hear(url: str, timeout_s: float = 20.0, leave_after: int | None = None, **fields: Any) -> Heard:
    """``listen`` with a session of its own."""
    return hear_all([(url, fields)], timeout_s, leave_after)[0]


def hear_all(
    asked: list[tuple[str, dict[str, Any]]], timeout_s: float = 20.0, leave_after: int | None = None
) -> list[Heard]:
    """All at once."""

    async def ask() -> list[Heard]:
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            return await asyncio.gather(
                *(listen(session, url, leave_after=leave_after, **fields) for url, fields in asked)
            )

    return asyncio.run(ask())
