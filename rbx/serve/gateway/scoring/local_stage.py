"""Scoring in threads beside the event loop: one call at a time, or several side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from rbx.config.deployment import ScoringQueue
from rbx.heads.bundle import Bundle
from rbx.heads.knn import PRODUCT_FROM_QUERIES
from rbx.heads.routers.head import RouterHead
from rbx.heads.text_by_text import on_one_core
from rbx.serve.gateway.scoring.gathering import Gathering
from rbx.serve.gateway.scoring.scorer import Foreseen, foresee
from rbx.serve.gateway.scoring.stage import ScoredPrompt


class LocalStage:
    """``workers`` threads of this process; several of them keep to one core each."""

    def __init__(
        self,
        bundle: Bundle,
        router: RouterHead | None,
        queue: ScoringQueue,
        clock: Callable[[], float],
        within_s: float,
    ) -> None:
        """``within_s`` bounds a call."""
        self._bundle, self._router = bundle, router
        self._threads = ThreadPoolExecutor(
            max_workers=queue.workers,
            thread_name_prefix="rbx-scoring",
            initializer=on_one_core if queue.workers > 1 else None,
        )
        self._largest = queue.max_size
        self._gathering: Gathering[Foreseen] = Gathering(queue, self._call, clock, within_s)

    async def start(self) -> None:
        """Read the encoder in and ask for few prompts and for many; raises what it can't be read in for."""
        for n in {1, min(self._largest, 2 * PRODUCT_FROM_QUERIES)}:
            await self._call(["warm"] * n)

    async def score(self, text: str) -> ScoredPrompt | None:
        """See ``ScoringStage``."""
        found = await self._gathering.ask(text)
        return None if found is None else ScoredPrompt(*found.answer, found.began_s, found.back_s)

    async def close(self) -> None:
        """See ``ScoringStage``."""
        await self._gathering.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _call(self, texts: list[str]) -> list[Foreseen]:
        asked = self._threads.submit(foresee, self._bundle, texts, self._router)
        found = await asyncio.wrap_future(asked)
        return [Foreseen(*row) for row in zip(*found, strict=True)]
