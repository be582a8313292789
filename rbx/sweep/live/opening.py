"""From the experiment's ``live`` to servers that can be used, held for one sweep alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from rbx.config.endpoint import environment_key
from rbx.config.endpoints import InstanceEndpoint, load_endpoints
from rbx.config.experiment import Experiment
from rbx.config.live import GatewayTarget, LaunchTarget, Live
from rbx.config.pool import Pool
from rbx.heads.bundle import Bundle
from rbx.sweep.live.asking import Asker
from rbx.sweep.live.gateway_servers import GatewayServers
from rbx.sweep.live.launched_servers import LaunchedServers
from rbx.sweep.live.openai_servers import OpenAiServers
from rbx.sweep.live.pool_lock import pool_lock
from rbx.sweep.live.target import LiveTarget

READY_S = 120.0  # a breaker that the cell before has opened keeps an instance out for up to a minute


@asynccontextmanager
async def opened(
    live: Live,
    experiment: Experiment,
    pool: Pool,
    bundle: Bundle | None,
    logs: Path,
    *,
    ready_s: float = READY_S,
    note: Path | None = None,
) -> AsyncIterator[LiveTarget]:
    """Hold the target's servers for this sweep; what was changed or launched is undone at the end.

    ``logs`` is the folder for the output of a launch's processes; ``ready_s`` bounds how long servers that
    run already may take to be ready; ``note`` is the file of ``FoundConfig``, for what a kill leaves. Raises
    ``StoreError`` where another sweep holds them or the note is none, ``ConfigError`` for a
    target that does not fit the experiment or a key that is not set.
    """
    digest = None if bundle is None else bundle.digest
    async with aiohttp.ClientSession() as session:
        asker = Asker(session)
        target = live.target
        if isinstance(target, GatewayTarget):
            endpoints = _endpoints(target, pool)
            url = target.url.rstrip("/")
            token = environment_key(url, target.token_env, "token_env")
            with pool_lock([url, *(endpoint.url for endpoint in endpoints.values())]):
                gateway = GatewayServers(
                    url, token, endpoints, asker, experiment, pool, digest, ready_s, note
                )
                try:
                    yield gateway
                finally:
                    await gateway.restore()
        elif isinstance(target, LaunchTarget):
            launch = LaunchedServers(target.file, target.set, asker, experiment, pool, digest, ready_s, logs)
            with pool_lock([str(target.file.resolve())]):
                try:
                    yield launch
                finally:
                    await launch.close()
        else:
            with pool_lock([target.url]):
                yield OpenAiServers(target, asker, ready_s)


def _endpoints(target: GatewayTarget, pool: Pool) -> Mapping[str, InstanceEndpoint]:
    if target.endpoints is None:
        return {}
    endpoints = load_endpoints(target.endpoints).value
    endpoints.of(pool)
    return endpoints.instances
