"""A real gateway over mock servers, each in a thread of its own, for tests of what drives them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rbx.config.base import parse
from rbx.config.endpoints import InstanceEndpoint
from rbx.config.gateway import GatewayConfig
from rbx.config.pool import Pool
from rbx.heads.bundle import Bundle
from rbx.serve.gateway.gateway import Gateway
from rbx.serve.launch.ports import bound
from rbx.serve.launch.serving import Scheduler, ServedGateway
from rbx.serve.mock.serving import MockTier, serve_mock

SHORTEST = {"policy": {"kind": "passthrough", "dispatch": ["shortest-queue"]}}


@dataclass
class Deployment:
    """``url`` is the gateway's address without ``/v1``."""

    url: str
    pool: Pool
    mock: MockTier
    gateway: Gateway


@contextmanager
def deployed(
    pool: Pool,
    *,
    time_scale: float = 20.0,
    bundle: Bundle | None = None,
    token: str | None = None,
    **config: Any,
) -> Iterator[Deployment]:
    """A gateway in front of mock servers of ``pool``."""
    with (
        serve_mock(pool, time_scale=time_scale) as mock,
        serving_gateway(pool, mock.endpoints.of(pool), bundle=bundle, token=token, **config) as served,
    ):
        yield Deployment(served.url, pool, mock, served.gateway)


@contextmanager
def serving_gateway(
    pool: Pool,
    endpoints: tuple[InstanceEndpoint, ...],
    *,
    bundle: Bundle | None = None,
    token: str | None = None,
    **config: Any,
) -> Iterator[ServedGateway]:
    """A gateway in front of servers that run already."""
    chosen = parse(GatewayConfig, {**SHORTEST, **config}, where="test")
    found: list[ServedGateway] = []
    up = threading.Event()

    async def serve() -> None:
        with bound("127.0.0.1", 0) as sock:
            served = ServedGateway(Scheduler(pool, chosen, bundle, sock, 5.0, token), endpoints)
            found.append(served)
            await served.run(up.set)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    while not up.wait(0.05):
        assert thread.is_alive(), "the gateway did not start"
    try:
        yield found[0]
    finally:
        found[0].stop()
        thread.join(30)
        assert not thread.is_alive()
