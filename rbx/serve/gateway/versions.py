"""The configuration in force, and how another takes its place: whole, at once, off the loop."""

from __future__ import annotations

import asyncio
from typing import Any

from rbx.config.base import parse
from rbx.config.gateway import GatewayConfig
from rbx.errors import ConfigError, RbxError
from rbx.serve.gateway.version import Surroundings, Version, build_version
from rbx.serve.gateway.warming import warm


class Versions:
    """``current`` is what new requests come under; older versions live as long as their requests."""

    def __init__(self, config: GatewayConfig, around: Surroundings) -> None:
        """Version 1; raises ``ConfigError`` for a policy that does not fit the pool."""
        self._around = around
        self._turn = asyncio.Lock()
        self.current: Version = build_version(1, config, around)
        self._earlier: list[Version] = []

    async def warm(self, version: Version) -> None:
        """Start and compile what ``version`` decides with; the pool is looked at here, in the loop.

        Raises ``RbxError`` where its scoring can't start.
        """
        await version.decider.start()
        sight = self._around.watch.view(self._around.clock())
        await asyncio.to_thread(warm, version, self._around, sight)

    async def replace(self, data: dict[str, Any], expected: frozenset[str] | None = None) -> Version | None:
        """Validate ``data`` whole and put it in force; raises ``ConfigError`` with every fault.

        With ``expected``, labels of versions that it may replace, None if another is in force.
        """
        config = await asyncio.to_thread(parse, GatewayConfig, data, where="config")
        async with self._turn:
            if expected is not None and self.current.label not in expected:
                return None
            number = self.current.number + 1
            version = await asyncio.to_thread(build_version, number, config, self._around)
            try:
                await self.warm(version)
            except BaseException as error:
                await version.decider.close()
                if isinstance(error, RbxError):
                    raise ConfigError(f"policy {version.policy.label}: {error}") from None
                raise
            self._around.breakers.configure(config.breaker)
            self._around.watch.configure(config.watch)
            replaced, self.current = self.current, version
            replaced.decider.retire()
            self._earlier = [each for each in [*self._earlier, replaced] if not each.decider.closed]
            return version

    async def close(self) -> None:
        """Let go of the scoring of every version."""
        for version in (*self._earlier, self.current):
            await version.decider.close()
