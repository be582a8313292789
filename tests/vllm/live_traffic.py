"""Traffic to a live server, and the server's published state at every send."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.serve.state.engine_ids import row_id
from rbx.serve.state.published import PublishedState
from tests.vllm.live_server import NAME
from tests.vllm.stream_client import Answer, complete
from tests.vllm.tiny_model import FIRST_WORD, VOCABULARY

STOPS = 32  # of the vocabulary: answers are geometric, of mean VOCABULARY / STOPS = 32 tokens
CAP_TOKENS = 256


@dataclass(frozen=True)
class Sent:
    """A request and what its sender could know: the state ``snapshot`` and the ids of its rows."""

    answer: Answer
    snapshot: InstanceSnapshot
    ids: NDArray[np.int64]


@dataclass
class Traffic:
    """Requests of one run, in order of sending; prompts are log-uniform, nobody knows the lengths."""

    port: int
    state: PublishedState
    rng: Generator
    label: str
    prompts: tuple[int, int]
    sent: list[Sent] = field(default_factory=list)
    _named: int = 0

    async def poisson(self, per_s: float, seconds: float) -> None:
        """Independent arrivals; returns when the last answer is complete."""
        running, began_s, at_s = [], time.monotonic(), 0.0
        while True:
            at_s += float(self.rng.exponential(1.0 / per_s))
            if at_s > seconds:
                break
            await asyncio.sleep(max(0.0, began_s + at_s - time.monotonic()))
            running.append(asyncio.create_task(self._send()))
            await asyncio.sleep(0)  # it goes out before the next gap is waited for
        await asyncio.gather(*running)

    async def closed(self, at_once: int, seconds: float) -> float:
        """``at_once`` clients without pause; returns the requests completed per second."""
        began_s = time.monotonic()

        async def client() -> None:
            while time.monotonic() < began_s + seconds:
                await self._send()

        await asyncio.gather(*(client() for _ in range(at_once)))
        done_s = np.array([sent.answer.done_s for sent in self.sent])
        # The first and last fifth fill and empty the server.
        low, high = began_s + seconds / 5, began_s + seconds
        return float(((done_s > low) & (done_s <= high)).sum() / (high - low))

    async def _send(self) -> None:
        low, high = np.log(self.prompts[0]), np.log(self.prompts[1])
        prompt = int(np.exp(self.rng.uniform(low, high)))
        words = self.rng.integers(FIRST_WORD, VOCABULARY, prompt).tolist()
        answer = Answer(f"{self.label}-{self._named}", prompt, CAP_TOKENS)
        self._named += 1
        body = {
            "model": NAME,
            "prompt": words,
            "temperature": 1.0,
            "stop_token_ids": list(range(FIRST_WORD, FIRST_WORD + STOPS)),
        }

        def look() -> None:
            self.sent.append(Sent(answer, self.state.read(time.monotonic()), self.state.ids))

        await complete(self.port, answer, body, look)

    def answers(self) -> Iterator[Answer]:
        """All requests."""
        return (sent.answer for sent in self.sent)


def identity(answer: Answer) -> int:
    """The id of a request's row."""
    return row_id(answer.name, "completions")
