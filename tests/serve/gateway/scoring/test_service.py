"""The service of a sidecar, spoken to as a server would: bodies in pieces, clients that leave."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rbx.config.deployment import Microbatch
from rbx.serve.gateway.scoring import service
from rbx.serve.gateway.scoring.gathering import Gathering
from rbx.serve.gateway.scoring.scorer import Foreseen
from rbx.serve.gateway.scoring.service import scoring_app
from rbx.serve.gateway.scoring.stage import ScoredPrompt
from rbx.serve.gateway.scoring.wire import PATH, question, read_answer


class Stage:
    """Holds prompts for as long as ``window_s``, then says the length of each."""

    def __init__(self, window_s: float = 0.0) -> None:
        queue = Microbatch(window_s=window_s).queue
        self.gathering: Gathering[float] = Gathering(queue, self._call, time.monotonic, 5.0)

    async def start(self) -> None:
        pass

    async def score(self, text: str) -> ScoredPrompt | None:
        found = await self.gathering.ask(text)
        assert found is not None
        row = np.full(2, found.answer)
        return ScoredPrompt(*Foreseen(row, row, row), found.began_s, found.back_s)

    async def close(self) -> None:
        await self.gathering.close()

    async def _call(self, texts: list[str]) -> list[float]:
        return [float(len(text)) for text in texts]


async def post(stage: Stage, pieces: list[bytes], leaves: asyncio.Event) -> tuple[int, bytes]:
    """Status and body; the client is there until ``leaves`` is set."""
    left = list(pieces)
    answer: dict[str, Any] = {"status": 0, "body": b""}

    async def receive() -> dict[str, Any]:
        if left:
            piece = left.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(left)}
        await leaves.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        answer["status"] = message.get("status", answer["status"])
        answer["body"] += message.get("body", b"")

    scope = {
        "type": "http",
        "method": "POST",
        "path": PATH,
        "raw_path": PATH.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [],
        "server": ("127.0.0.1", 1),
        "client": ("127.0.0.1", 2),
        "scheme": "http",
        "http_version": "1.1",
    }
    await scoring_app(stage)(scope, receive, send)
    return answer["status"], answer["body"]


async def until(holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 5.0
    while not holds():
        assert time.monotonic() < until_s
        await asyncio.sleep(0.005)


def test_a_question_in_pieces_is_answered() -> None:
    async def run() -> None:
        body = question("how long?")
        status, answer = await post(Stage(), [body[:3], body[3:7], body[7:]], asyncio.Event())
        assert status == 200
        assert read_answer(answer, 2).foreseen.quality.tolist() == [9.0, 9.0]

    asyncio.run(run())


@pytest.mark.parametrize(("body", "status"), [(b'{"text": 1}', 400), (b"[", 400), (b" " * 101, 413)])
def test_what_is_no_question_is_refused(body: bytes, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_BODY_BYTES", 100)
    assert asyncio.run(post(Stage(), [body[:50], body[50:]], asyncio.Event()))[0] == status


def test_whoever_leaves_is_in_nobodys_way() -> None:
    """Under load clients give up and come again: a queue that kept the old prompts would only grow."""

    async def run() -> None:
        stage, leaves = Stage(window_s=60.0), asyncio.Event()
        asking = [asyncio.create_task(post(stage, [question(str(k))], leaves)) for k in range(10)]
        await until(lambda: stage.gathering.waiting == 10)
        leaves.set()
        await asyncio.wait_for(asyncio.gather(*asking), 5.0)
        assert stage.gathering.waiting == 0
        await stage.close()

    asyncio.run(run())
