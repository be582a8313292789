"""Servers that the sweep brings up itself: ``rbx launch`` as a process of its own, ended with the sweep.

The gateway is to share neither event loop nor processor time slices with the client that measures it.
"""

from __future__ import annotations

import asyncio
import math
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from rbx.config.base import load
from rbx.config.endpoints import load_endpoints
from rbx.config.experiment import Experiment
from rbx.config.launch import Launch, LocalLauncher, RayLauncher
from rbx.config.pool import Pool, load_pool
from rbx.errors import ConfigError
from rbx.serve.launch.child import Child
from rbx.sweep.live.asking import Asker
from rbx.sweep.live.fault import TargetFault
from rbx.sweep.live.gateway_servers import GatewayServers
from rbx.sweep.live.readiness import Tell, unheard

SHOWN_LINES = 80  # the launch shows the last 60 of the process that failed, and says which one
_LOOK_S = 0.1
_COMPILE_S = 120.0  # beyond the launch file's own bound: the gateway compiles, and warms its heads
_GRACE_S = 15.0  # beyond that of its servers


class LaunchedServers(GatewayServers):
    """See ``LiveTarget``. Nothing runs before the first ``ready``, nor after ``close``."""

    kind = "launch"
    nobody_s = math.inf  # the next cell brings it up anew

    def __init__(
        self,
        file: Path,
        overrides: tuple[str, ...],
        asker: Asker,
        experiment: Experiment,
        pool: Pool,
        bundle: str | None,
        ready_s: float,
        logs: Path,
    ) -> None:
        """Raises ``ConfigError`` for a launch file that is none, or of another pool."""
        launch = load(Launch, file, list(overrides)).value
        launched = load_pool(launch.pool).value
        launch.check(launched)
        if launched.digest != pool.digest:
            raise ConfigError(
                f"{file}: pool {launch.pool} ({launched.name}) is not the experiment's, {experiment.pool} "
                f"({pool.name})"
            )
        super().__init__("", None, {}, asker, experiment, pool, bundle, ready_s)
        self._file, self._launch, self._logs = file, launch, logs
        self.launcher = launch.launcher
        self._overrides = overrides
        self._child: Child | None = None

    async def ready(self, tell: Tell = unheard) -> None:
        """Bring everything up where it is not; raises ``TargetFault`` (``launch_failed``) with the last
        lines of the log."""
        if self._child is None or self._child.exit_code is not None:
            await self._bring_up()
        await super().ready(tell)

    async def lost(self) -> str | None:
        """See ``LiveTarget``."""
        if self._child is not None and (code := self._child.exit_code) is not None:
            return f"rbx launch {self._file} ended with exit code {code}; {_end_of(self._child)}"
        return await super().lost()

    async def close(self) -> None:
        """End every process; returns when none is left."""
        if self._child is not None:
            self._child.let_go()
            await self._child.ended()
            self._child = None

    def describe(self) -> dict[str, Any]:
        """See ``LiveTarget``."""
        return {
            "kind": self.kind,
            "file": str(self._file),
            "set": list(self._overrides),
            "launcher": self._launch.launcher.kind,
        }

    async def _bring_up(self) -> None:
        self._logs.mkdir(parents=True, exist_ok=True)
        address, endpoints = self._logs / "gateway.url", self._logs / "endpoints.yaml"
        for old in (address, endpoints):
            old.unlink(missing_ok=True)
        command = [sys.executable, "-m", "rbx", "launch", str(self._file), "--port", "0", "--drain", "0"]
        command += ["--logs", str(self._logs), "--url-out", str(address), "--endpoints-out", str(endpoints)]
        for override in self._overrides:
            command += ["--set", override]
        if self._bundle is not None:
            command += ["--bundle", str(self._experiment.bundle)]
        grace_s = _GRACE_S
        if isinstance(self._launch.launcher, LocalLauncher | RayLauncher):
            grace_s += self._launch.launcher.grace_s
        self._child = Child("rbx launch", command, {}, self._logs / "launch.log", grace_s)
        try:
            await self._until_up(self._child, address)
        except BaseException:
            await self.close()
            raise
        where = address.read_text(encoding="utf-8").strip()
        self._stand_at(where, None, load_endpoints(endpoints).value.instances)

    async def _until_up(self, child: Child, address: Path) -> None:
        loop = asyncio.get_running_loop()
        bound_s = self._launch.ready_s + _COMPILE_S
        if isinstance(self._launch.launcher, RayLauncher):
            bound_s += self._launch.launcher.place_s
        until_s = loop.time() + bound_s
        while not address.exists():
            if child.exit_code is not None:
                what = f"rbx launch {self._file} ended with exit code {child.exit_code}"
                raise TargetFault("launch_failed", f"{what}; {_end_of(child)}")
            if loop.time() >= until_s:
                what = f"rbx launch {self._file} is not up after {bound_s:g} s"
                raise TargetFault("launch_failed", f"{what}; {_end_of(child)}")
            await asyncio.sleep(_LOOK_S)


def _end_of(child: Child) -> str:
    lines: list[str] = []
    with suppress(OSError):
        lines = child.last_lines(SHOWN_LINES)
    if not lines:
        return f"{child.log} is empty"
    return "\n".join([f"the last lines of {child.log}:", *(f"  {line}" for line in lines)])
