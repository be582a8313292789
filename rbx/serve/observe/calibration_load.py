"""A load that shows a server's steps over the range of prompts, answers and concurrency that it serves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from rbx.errors import ServerError, UsageError
from rbx.serve.observe.server import ServerIdentity, json_object, shown_answer

REQUEST_TIMEOUT_S = 600.0
_MOST_TOKENS = 1 << 31  # of a vocabulary
_TEXT = (
    "A steady load tells less than a varied one: short and long prompts, short and long answers, few and "
    "many requests at once. Every sentence here only serves to find some tokens of the served model."
)


@dataclass(frozen=True)
class LoadDesign:
    """Closed-loop levels of concurrency, one after the other for equal times, over and over.

    Prompts are log-uniform from ``shortest_prompt`` to ``longest_prompt`` tokens, answers from 1 to
    ``longest_answer``; each answer is cut at its length and ignores the end-of-sequence token. Each
    level is met ``rounds`` times, so that blocks of time held out have something of each.
    """

    levels: tuple[int, ...]
    longest_prompt: int
    longest_answer: int
    shortest_prompt: int = 4
    rounds: int = 4

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        if not self.levels or min(self.levels) < 1:
            raise UsageError(f"levels are {self.levels}; give at least one, each at least 1")
        if not 1 <= self.shortest_prompt <= self.longest_prompt:
            raise UsageError(
                f"prompts of {self.shortest_prompt} to {self.longest_prompt} tokens: the range is empty"
            )
        if self.longest_answer < 1 or self.rounds < 1:
            raise UsageError("longest_answer and rounds must be at least 1")

    @classmethod
    def of(cls, max_model_len: int, max_num_seqs: int) -> LoadDesign:
        """Levels 1, 2, 4, … up to one and a half times the seats; prompts and answers share the context."""
        levels = [
            1 << power for power in range(max(1, max_num_seqs).bit_length()) if 1 << power < max_num_seqs
        ]
        levels += [max_num_seqs, max_num_seqs + max(1, max_num_seqs // 2)]
        prompt = max(4, max_model_len * 3 // 4)
        return cls(tuple(levels), prompt, max(1, min(512, max_model_len - prompt - 1)), min(4, prompt))


@dataclass
class LoadProgress:
    """What has been sent and come back so far."""

    level: int = 0
    done: int = 0
    failed: int = 0
    last_error: str = ""
    answers: list[tuple[int, int]] = field(default_factory=list)  # prompt and answer tokens of each


class CalibrationLoad:
    """Sends a design's requests to a server's ``/v1/completions``; prompts are token ids.

    ``rng`` decides lengths and tokens.
    """

    def __init__(self, server: ServerIdentity, design: LoadDesign, rng: Generator) -> None:
        """Ready to run."""
        self.progress = LoadProgress()
        self._server, self._design, self._rng = server, design, rng
        self._tokens: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    async def run(self, duration_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Keep each level for its share of ``duration_s``; returns when the last answers have come.

        Raises ``ServerError`` if the server refuses the first requests.
        """
        design, began_s = self._design, clock()
        phases = design.levels * design.rounds
        limits = httpx.Limits(
            max_connections=max(design.levels), max_keepalive_connections=max(design.levels)
        )
        async with httpx.AsyncClient(timeout=REQUEST_TIMEOUT_S, limits=limits) as client:
            self._tokens = await self._some_tokens(client)
            for number, level in enumerate(phases, start=1):
                self.progress.level = level
                until_s = began_s + duration_s * number / len(phases)
                await asyncio.gather(*(self._keep_asking(client, until_s, clock) for _ in range(level)))

    async def _keep_asking(
        self, client: httpx.AsyncClient, until_s: float, clock: Callable[[], float]
    ) -> None:
        while clock() < until_s:
            await self._ask(client)

    async def _ask(self, client: httpx.AsyncClient) -> None:
        prompt, answer = self._lengths()
        body = {
            "model": self._server.model,
            "prompt": self._rng.choice(self._tokens, prompt).tolist(),
            "max_tokens": answer,
            "ignore_eos": True,
            "temperature": 1.0,
        }
        progress = self.progress
        try:
            found = await client.post(f"{self._server.url}/v1/completions", json=body)
            found.raise_for_status()
        except httpx.HTTPStatusError as error:
            self._note_failure(f"{error.response.status_code}: {error.response.text[:300]}")
        except httpx.HTTPError as error:
            self._note_failure(str(error) or type(error).__name__)
            await asyncio.sleep(0.2)
        else:
            progress.done += 1
            progress.answers.append((prompt, answer))

    def _note_failure(self, error: str) -> None:
        progress = self.progress
        progress.failed += 1
        progress.last_error = error
        if progress.done == 0 and progress.failed >= 3:
            raise ServerError(f"{self._server.url}/v1/completions refuses every request: {error}")

    def _lengths(self) -> tuple[int, int]:
        design = self._design
        low, high = np.log(design.shortest_prompt), np.log(design.longest_prompt + 1)
        prompt = int(np.exp(self._rng.uniform(low, high)))
        answer = int(np.exp(self._rng.uniform(0.0, np.log(design.longest_answer + 1))))
        return min(max(prompt, design.shortest_prompt), design.longest_prompt), max(answer, 1)

    async def _some_tokens(self, client: httpx.AsyncClient) -> NDArray[np.int64]:
        """Ids that the model has, from its own tokenizer."""
        body = {"model": self._server.model, "prompt": _TEXT}
        asked = f"POST {self._server.url}/tokenize"
        instead = "--drive needs vLLM's own server; else send a load of your own and use --no-drive"
        try:
            found = await client.post(f"{self._server.url}/tokenize", json=body)
        except httpx.HTTPError as error:
            raise ServerError(f"{asked}: no answer: {error or type(error).__name__}; {instead}") from None
        tokens = (json_object(found) or {}).get("tokens")
        if found.status_code != httpx.codes.OK or not _are_ids(tokens):
            raise ServerError(
                f"{asked} was to give token ids of a text; it answers {shown_answer(found)}. {instead}"
            )
        return np.unique(np.array(tokens, dtype=np.int64))


def _are_ids(tokens: Any) -> bool:
    return (
        isinstance(tokens, list)
        and len(tokens) > 0
        and all(type(token) is int and 0 <= token < _MOST_TOKENS for token in tokens)
    )
