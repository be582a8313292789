"""A launch from the first process to the last: tiers, readiness, the gateway, the end of all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rbx.config.endpoints import Endpoints
from rbx.config.launch import Launch
from rbx.config.pool import Pool
from rbx.durable import write_text
from rbx.ending import on_ending_in_loop
from rbx.errors import ServerError
from rbx.serve.launch.loads import Loads
from rbx.serve.launch.process import Process
from rbx.serve.launch.readiness import Awaited, await_ready
from rbx.serve.launch.serving import Scheduler, ServedGateway
from rbx.serve.launch.tiers import Tiers
from rbx.serve.launch.told_limits import compared_limits

SHOWN_LINES = 60  # vLLM tells the cause of a failure well before its last line
_LOOK_S = 0.25

Told = Callable[[str], None]


class Session:
    """Supervises what was brought up; whatever happens, nothing of it is left when ``run`` returns."""

    def __init__(
        self,
        launch: Launch,
        pool: Pool,
        tiers: Tiers,
        scheduler: Scheduler | None,
        endpoints_out: Path | None,
    ) -> None:
        """Without a ``scheduler`` only the tiers are kept up."""
        self.pool, self.tiers = pool, tiers
        self.states: dict[str, str] = {instance.name: "starting" for instance in pool.instances}
        self.loads = Loads(tiers.endpoints)
        self.served: ServedGateway | None = None
        self._launch, self._scheduler, self._out = launch, scheduler, endpoints_out
        self._stopping = asyncio.Event()
        self._ended: set[str] = set()

    async def run(self, told: Told, serving: Callable[[], None]) -> bool:
        """Until a signal; ``told`` of what happens, ``serving`` is called once all is up.

        Returns whether everything had come up. Raises ``ServerError`` with its last log lines for a process
        that ends by itself, and for what is not ready in time.
        """
        with on_ending_in_loop(self._signalled):
            try:
                return await self._run(told, serving)
            finally:
                await self._end_all()

    async def _run(self, told: Told, serving: Callable[[], None]) -> bool:
        stopping = asyncio.ensure_future(self._stopping.wait())
        failing = asyncio.ensure_future(self._first_end())
        ready = asyncio.ensure_future(self._ready(told))
        following = asyncio.ensure_future(self.loads.follow())
        try:
            await asyncio.wait({stopping, failing, ready}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                return False
            if failing.done():
                raise failure(failing.result())
            ready.result()
            if self._out is not None:
                write_text(Endpoints(instances=self.tiers.endpoints).as_yaml(), self._out)
            await self._serve(told, serving, stopping, failing)
            return True
        finally:
            for task in (stopping, failing, ready, following):
                task.cancel()
            await asyncio.gather(stopping, failing, ready, following, return_exceptions=True)

    async def _serve(
        self,
        told: Told,
        serving: Callable[[], None],
        stopping: asyncio.Future[Any],
        failing: asyncio.Future[Any],
    ) -> None:
        work = stopping
        if self._scheduler is None:
            serving()
        else:
            endpoints = tuple(self.tiers.endpoints[instance.name] for instance in self.pool.instances)
            self.served = ServedGateway(self._scheduler, endpoints)
            work = asyncio.ensure_future(self.served.run(serving))
            if self._stopping.is_set():
                self.served.stop()
        try:
            while True:
                await asyncio.wait({work, failing}, return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    work.result()
                    return
                child = failing.result()
                last = failure(child)
                if not self._launch.keep_serving or len(self._ended) == len(self.tiers.children):
                    raise last
                told(str(last))
                failing = asyncio.ensure_future(self._first_end())
        finally:
            failing.cancel()
            if self.served is not None and not work.done():
                self.served.stop()
                self.served.stop()
                await asyncio.gather(work, return_exceptions=True)

    async def _ready(self, told: Told) -> None:
        awaited = [
            Awaited(instance.name, endpoint, endpoint.served_name or instance.tier.model)
            for instance in self.pool.instances
            for endpoint in (self.tiers.endpoints[instance.name],)
        ]

        def up(each: Awaited) -> None:
            self.states[each.name] = "ready"
            told(f"{each.name} is ready at {each.endpoint.url}")

        try:
            await await_ready(awaited, self._launch.ready_s, up)
        except ServerError as error:
            late = [child for child in self.tiers.children.values() if self._is_late(child, awaited)]
            raise ServerError("\n".join([str(error), *(_end_of_log(child) for child in late[:3])])) from None
        for line in await compared_limits(self.pool, self.tiers.endpoints, self._launch.launcher):
            told(line)

    def _is_late(self, child: Process, awaited: list[Awaited]) -> bool:
        return any(self.tiers.owners.get(each.name) == child.name and not each.ready for each in awaited)

    async def _first_end(self) -> Process:
        """The next process that ends by itself."""
        while True:
            for name, child in self.tiers.children.items():
                if name not in self._ended and child.ending is not None:
                    self._ended.add(name)
                    for instance in self.states:
                        if self.tiers.owners.get(instance) == name:
                            self.states[instance] = "ended"
                    return child
            await asyncio.sleep(_LOOK_S)

    def _signalled(self) -> None:
        self._stopping.set()
        if self.served is not None:
            self.served.stop()

    async def _end_all(self) -> None:
        for child in self.tiers.children.values():
            child.let_go()
        await asyncio.gather(*(child.ended() for child in self.tiers.children.values()))


def failure(child: Process) -> ServerError:
    """A process that has ended, with its last words."""
    return ServerError(f"{child.name} {child.ending}; {_end_of_log(child)}")


def _end_of_log(child: Process) -> str:
    try:
        lines = child.last_lines(SHOWN_LINES)
    except OSError:
        return f"{child.log} can't be read"
    if not lines:
        return f"{child.log} is empty"
    return "\n".join([f"the last lines of {child.log}:", *(f"  {line}" for line in lines)])
