"""One gateway served from its start to the end of its drain."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rbx.config.endpoints import InstanceEndpoint
from rbx.config.gateway import GatewayConfig
from rbx.config.pool import Pool
from rbx.heads.bundle import Bundle
from rbx.serve.gateway.app import gateway_app
from rbx.serve.gateway.gateway import Gateway
from rbx.serve.gateway.server import GatewayServer
from rbx.serve.launch.ports import address_of
from rbx.serve.upstream.instance import HttpInstance
from rbx.serve.watch.pool_watch import PoolWatch


@dataclass(frozen=True)
class Scheduler:
    """What the gateway in front of a pool is made of, short of where the instances answer.

    ``token`` guards ``/v1/config``; ``drain_s`` is what answers under way get at the end.
    """

    pool: Pool
    config: GatewayConfig
    bundle: Bundle | None
    sock: socket.socket
    drain_s: float
    token: str | None = field(default=None, repr=False)


class _Server(GatewayServer):
    """A server that leaves the signals to its owner."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class ServedGateway:
    """A gateway over instances that answer at ``endpoints``; make it in the loop that is to serve it."""

    def __init__(self, scheduler: Scheduler, endpoints: tuple[InstanceEndpoint, ...]) -> None:
        """Raises ``ConfigError`` for a policy that does not fit and keys that the environment lacks,
        ``BundleError`` for a bundle of another pool."""
        instances = scheduler.pool.instances
        upstreams = [
            HttpInstance(instance.name, endpoint, instance.tier.model)
            for instance, endpoint in zip(instances, endpoints, strict=True)
        ]
        watch = PoolWatch(scheduler.pool, endpoints, scheduler.config.watch)
        self.gateway = Gateway(scheduler.pool, scheduler.bundle, upstreams, watch, scheduler.config)
        self.url = address_of(scheduler.sock)
        self._sock = scheduler.sock
        self._app = gateway_app(self.gateway, config_token=scheduler.token, endpoints=endpoints)
        self._server = _Server(self._app, self.gateway, host="", port=0, drain_s=scheduler.drain_s)
        # Its lifespan is led from here, so that what it raises reaches the caller.
        self._server.config.lifespan = "off"

    async def run(self, started: Callable[[], None]) -> None:
        """Serve until ``stop``; ``started`` is called once every instance was asked for its pages."""
        async with self._app.router.lifespan_context(self._app):
            started()
            await self._server.serve(sockets=[self._sock])

    def stop(self) -> None:
        """Drain, then end; called again, end at once."""
        self._server.handle_exit(signal.SIGTERM, None)

    @property
    def answering(self) -> int:
        """How many instances can be sent requests now."""
        return int(self.gateway.routable().sum())
