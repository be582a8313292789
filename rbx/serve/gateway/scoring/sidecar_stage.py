"""Scoring by a sidecar: each prompt a request to a process that gathers them and may die."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import aiohttp

from rbx.errors import ServerError
from rbx.serve.event_loop import tell_end
from rbx.serve.gateway.scoring.service import KEEP_ALIVE_S
from rbx.serve.gateway.scoring.sidecar_process import SidecarProcess
from rbx.serve.gateway.scoring.stage import ScoredPrompt
from rbx.serve.gateway.scoring.wire import PATH, Served, question, read_answer

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
_BEYOND_A_CALL_S = 1.0  # a service that answers nobody for this long after the last call was due hangs

_log = logging.getLogger(__name__)


class SidecarStage:
    """``process`` is started anew when it dies; until it answers again nothing is scored and nobody waits."""

    def __init__(
        self, process: SidecarProcess, n_models: int, clock: Callable[[], float], quiet_s: float
    ) -> None:
        """``quiet_s`` is the longest from one answer to the next: a call's window and its bound.

        How long a prompt waits for its call is for the queue to say.
        """
        self.process = process
        self._n_models = n_models
        self._clock = clock
        self._patience_s = quiet_s + _BEYOND_A_CALL_S
        self._url: str | None = None
        self._heard_s = 0.0
        self._session: aiohttp.ClientSession | None = None
        self._nurse: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """See ``ScoringStage``; raises ``ServerError``."""
        self._url = await self.process.start()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S / 2),
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._nurse = asyncio.create_task(self._look_after(), name="the nurse of the scoring sidecar")
        self._nurse.add_done_callback(tell_end)

    async def score(self, text: str) -> ScoredPrompt | None:
        """See ``ScoringStage``."""
        if self._url is None:
            return None
        asked_s = self._clock()
        asking = asyncio.ensure_future(self._post(self._url, text))
        try:
            while not asking.done():
                left_s = max(asked_s, self._heard_s) + self._patience_s - self._clock()
                if left_s <= 0:
                    _log.warning("the scoring sidecar gives no answer to anybody; a prompt not scored")
                    return None
                await asyncio.wait({asking}, timeout=left_s)
            return self._read(asking)
        finally:
            asking.cancel()

    async def close(self) -> None:
        """See ``ScoringStage``."""
        self._url = None
        if self._nurse is not None:
            self._nurse.cancel()
            await asyncio.gather(self._nurse, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
        await self.process.end()

    async def _post(self, url: str, text: str) -> Served:
        assert self._session is not None
        async with self._session.post(url + PATH, data=question(text)) as response:
            body = await response.read()
            self._heard_s = self._clock()
            if response.status != 200:
                raise ValueError(f"HTTP {response.status}")
            return read_answer(body, self._n_models)

    def _read(self, asking: asyncio.Future[Served]) -> ScoredPrompt | None:
        failure = asking.exception()
        if failure is None:
            served, now_s = asking.result(), self._clock()
            return ScoredPrompt(*served.foreseen, now_s - served.call_s, now_s)
        if not isinstance(failure, (aiohttp.ClientError, OSError, ValueError)):
            raise failure
        _log.warning("the scoring sidecar failed: %s: %s", type(failure).__name__, failure)
        return None

    async def _look_after(self) -> None:
        """Start it again whenever it ends, after pauses that grow while it does not come up."""
        while True:
            ending = await self.process.ended()
            self._url = None
            _log.error("the scoring sidecar %s; without it the shortest queue decides", ending)
            pause_s = FIRST_PAUSE_S
            while self._url is None:
                await asyncio.sleep(pause_s)
                try:
                    self._url = await self.process.start()
                except ServerError as error:
                    _log.error("%s", error)
                    pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            _log.warning("the scoring sidecar answers again")
