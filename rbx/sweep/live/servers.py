"""The servers behind a target, as far as they are known: the same questions to all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from rbx.config.endpoints import InstanceEndpoint
from rbx.config.launch import LauncherSpec
from rbx.config.pool import Pool
from rbx.serve.launch.told_limits import compared_limits
from rbx.serve.watch.addresses import Addresses
from rbx.sweep.live.asking import Asker
from rbx.sweep.live.identity import ServerIdentity, identities
from rbx.sweep.live.prefix_cache import reset_all
from rbx.sweep.live.readiness import gone
from rbx.sweep.live.server_pages import busy, fetch_pages

_PAUSE_S = 0.25
WARNING = "warning: "


class Servers:
    """Every server of the pool, or none."""

    def __init__(self, asker: Asker, pool: Pool, endpoints: Mapping[str, InstanceEndpoint]) -> None:
        """Raises ``ConfigError`` where the environment lacks an endpoint's key."""
        self._asker, self._pool = asker, pool
        self.endpoints = endpoints
        self._addresses = {name: Addresses.of(endpoint) for name, endpoint in endpoints.items()}

    async def identities(self) -> dict[str, ServerIdentity]:
        """See ``rbx.sweep.live.identity.identities``; empty where none is known."""
        return await identities(self._asker, self._pool, self.endpoints) if self.endpoints else {}

    async def other_limits(self, launcher: LauncherSpec | None) -> tuple[str, ...]:
        """A line for each server that forms other batches than the pool's, as far as it tells."""
        if not self.endpoints:
            return ()
        lines = await compared_limits(self._pool, self.endpoints, launcher)
        return tuple(line.removeprefix(WARNING) for line in lines if line.startswith(WARNING))

    async def gone(self) -> dict[str, str]:
        """Why servers do not answer, by name; without those that do."""
        pages = list(self._addresses.values())
        found = await asyncio.gather(
            *(gone(self._asker, each.models, each.headers(each.models)) for each in pages)
        )
        return {name: why for name, why in zip(self._addresses, found, strict=True) if why is not None}

    async def pages(self) -> dict[str, str]:
        """See ``fetch_pages``."""
        return await fetch_pages(self._asker, self._addresses)

    async def reset(self) -> tuple[str, ...]:
        """See ``reset_all``."""
        return await reset_all(self._asker, self.endpoints)

    async def drained(self, within_s: float) -> bool:
        """Wait until nothing runs or waits on any that tells; those that do not tell are not waited for."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        while any(busy(page) for page in (await self.pages()).values()):
            if loop.time() >= until_s:
                return False
            await asyncio.sleep(_PAUSE_S)
        return True
