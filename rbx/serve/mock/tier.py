"""All mock servers of a pool in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rbx.config.base import parse
from rbx.config.endpoints import Endpoints, InstanceEndpoint
from rbx.config.faults import FaultScript
from rbx.config.pool import Instance, Pool
from rbx.errors import ConfigError
from rbx.serve.mock.instance import MockInstance
from rbx.serve.mock.listener import FAULTS_PATH, HOST, Listener, bind_all
from rbx.serve.mock.refusal import error_object

FASTEST = 10_000.0  # virtual seconds in a real one
LAST_PORT = 65_535


@dataclass(frozen=True)
class Sight:
    """One mock instance as it is now."""

    running: int
    waiting: int
    free_blocks: int
    total_blocks: int
    received: int
    connections: int
    lag_s: float


class MockPool:
    """Serves instances of ``pool``, each on its own port, and ``/faults`` on one more."""

    def __init__(
        self,
        pool: Pool,
        *,
        time_scale: float = 1.0,
        base_port: int = 0,
        seed: int = 0,
        tiers: Sequence[str] = (),
    ) -> None:
        """Bind all ports: ``base_port`` and those after it, or free ones for 0; must run inside the loop.

        Connections are refused until ``start``.

        ``tiers`` names those to serve, default all. Raises ``ServerError`` with a port that is taken and
        ``ConfigError`` for unknown tiers, ports that do not exist and a time scale that is none.
        """
        self.pool = pool
        chosen = _chosen(pool, tiers)
        if not 0.0 < time_scale <= FASTEST:
            raise ConfigError(f"a time scale of {time_scale} is not above 0 and at most {FASTEST:g}")
        if not 0 <= base_port <= LAST_PORT - len(chosen):
            raise ConfigError(
                f"{len(chosen)} instances and their control need the ports {base_port} to "
                f"{base_port + len(chosen)}; ports end at {LAST_PORT}"
            )
        loop = asyncio.get_running_loop()
        *sockets, last = bind_all(base_port + k if base_port else 0 for k in range(len(chosen) + 1))
        self.instances = [
            MockInstance(instance, sock, time_scale, seed, loop)
            for instance, sock in zip(chosen, sockets, strict=True)
        ]
        self._script = FaultScript()
        self._control = Listener(_control_app(self), last)

    @property
    def endpoints(self) -> Endpoints:
        """Where each served instance answers."""
        return Endpoints(instances={each.name: InstanceEndpoint(url=each.url) for each in self.instances})

    @property
    def control_url(self) -> str:
        """Where ``/faults`` is: GET shows the script, PUT replaces it, DELETE ends all faults."""
        return f"http://{HOST}:{self._control.port}{FAULTS_PATH}"

    @property
    def script(self) -> FaultScript:
        """The faults put in force last."""
        return self._script

    async def start(self) -> None:
        """Take connections everywhere."""
        for instance in self.instances:
            await instance.start()
        await self._control.accept()

    async def close(self) -> None:
        """End everything and give up all ports."""
        await self._control.close()
        await asyncio.gather(*(instance.close() for instance in self.instances))

    async def set_faults(self, script: FaultScript) -> None:
        """Replace all faults, from now on; raises ``ConfigError`` for unknown targets, changing nothing."""
        script.check(self.pool)
        self._script = script
        for instance in self.instances:
            await instance.set_faults(script.of(instance.name, instance.tier.name))

    def sight(self) -> dict[str, Sight]:
        """Every instance now."""
        return {each.name: _sight(each) for each in self.instances}


def _chosen(pool: Pool, tiers: Sequence[str]) -> list[Instance]:
    known = [tier.name for tier in pool.tiers]
    if unknown := [name for name in tiers if name not in known]:
        raise ConfigError(f"pool {pool.name} has no tier {', '.join(unknown)}; it has {', '.join(known)}")
    return [instance for instance in pool.instances if not tiers or instance.tier.name in tiers]


def _sight(instance: MockInstance) -> Sight:
    seen = instance.engine.telemetry()
    lag_s = instance.engine.tally.lag.worst_s(asyncio.get_running_loop().time())
    return Sight(
        running=int(seen.running[0]),
        waiting=int(seen.waiting[0]),
        free_blocks=int(seen.free_blocks[0]),
        total_blocks=int(seen.total_blocks[0]),
        received=int(seen.received[0]),
        connections=instance.open_connections,
        lag_s=lag_s,
    )


def _control_app(pool: MockPool) -> Starlette:
    async def show(request: Request) -> Response:
        return JSONResponse(pool.script.model_dump(mode="json"))

    async def replace(request: Request) -> Response:
        try:
            document = await request.json()
            script = parse(FaultScript, document, where="the body")
            await pool.set_faults(script)
        except (ValueError, ValidationError, ConfigError) as error:
            return JSONResponse(error_object(400, str(error)), 400)
        return JSONResponse(script.model_dump(mode="json"))

    async def end(request: Request) -> Response:
        await pool.set_faults(FaultScript())
        return JSONResponse(pool.script.model_dump(mode="json"))

    return Starlette(
        routes=[
            Route(FAULTS_PATH, show, methods=["GET"]),
            Route(FAULTS_PATH, replace, methods=["PUT"]),
            Route(FAULTS_PATH, end, methods=["DELETE"]),
        ]
    )
