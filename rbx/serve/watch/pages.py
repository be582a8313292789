"""The pages of one instance, asked for in the background and told to its watch."""

from __future__ import annotations

from collections.abc import Callable

import aiohttp

from rbx.serve.watch.addresses import Addresses
from rbx.serve.watch.exact import FetchedState, LocalState
from rbx.serve.watch.fetch import Unanswered, fetch
from rbx.serve.watch.instance import InstanceWatch

_NO_SUCH_PAGE = (404, 405, 501)


class Pages:
    """One try each: all raise ``Unanswered``, or ``EngineError`` for what can't be used."""

    def __init__(
        self,
        addresses: Addresses,
        watch: InstanceWatch,
        session: aiohttp.ClientSession,
        clock: Callable[[], float],
    ) -> None:
        """Ask nothing yet."""
        self._addresses, self._watch, self._session, self._clock = addresses, watch, session, clock

    async def scrape(self) -> None:
        """``/metrics``."""
        asked_s = self._clock()
        body = await self._get(self._addresses.metrics)
        self._watch.page(body.decode("utf-8", errors="replace"), asked_s, self._clock())

    async def probe(self) -> None:
        """``/health``, or the list of models where there is no such page."""
        try:
            try:
                await self._get(self._addresses.health)
            except Unanswered as fault:
                if fault.status not in _NO_SUCH_PAGE:
                    raise
                await self._get(self._addresses.models)
        except Unanswered as fault:
            if fault.reason in ("status", "refused"):
                self._watch.probed(self._clock(), answered=False)
            raise
        self._watch.probed(self._clock(), answered=True)

    async def fetch_state(self, address: str, state: FetchedState) -> None:
        """The published state over HTTP."""
        asked_s = self._clock()
        content = await self._get(address)
        state.take(content, asked_s, self._clock())

    async def open_state(self, state: LocalState) -> None:
        """The published state on this host."""
        state.open()

    async def _get(self, address: str) -> bytes:
        headers = self._addresses.headers(address)
        return await fetch(self._session, address, headers, self._watch.config.timeout_s)
