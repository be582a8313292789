"""A server on a node of a Ray cluster, as a launch supervises it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from rbx.ray_cluster import cause_of
from rbx.serve.launch.ray_actor import Place

_AGAIN_S = 1.0
_TAIL_S = 5.0
_BEYOND_GRACE_S = 15.0
_SHOWN_LINES = 200


class RayServer:
    """The driver's side of a ``TierActor`` that has started its server; made in a running event loop."""

    def __init__(self, ray: Any, name: str, actor: Any, place: Place, log: Path, grace_s: float) -> None:
        """Follow it from now on."""
        self.name, self.url, self.log = name, f"{place.url}/v1", f"{log} on node {place.host}"
        self.folder = log.parent
        self._ray, self._actor, self._place, self._grace_s = ray, actor, place, grace_s
        self._end: asyncio.Future[tuple[str, list[str] | None]] = asyncio.ensure_future(self._followed())

    @property
    def ending(self) -> str | None:
        """None while it runs; a lost node or actor has ended its server too."""
        return self._end.result()[0] if self._end.done() else None

    def last_lines(self, count: int) -> list[str]:
        """The end of its log; raises ``OSError`` where its node does not answer."""
        if self._end.done():
            kept = self._end.result()[1]
            if kept is None:
                raise OSError("lost with its node")
            return kept[-count:]
        try:
            lines = self._ray.get(self._actor.last_lines.remote(count), timeout=_TAIL_S)
        except self._ray.exceptions.RayError as error:
            raise OSError(cause_of(error)) from None
        return [str(line) for line in lines]

    def let_go(self) -> None:
        """SIGTERM to its group, after the grace SIGKILL."""
        if not self._end.done():
            self._actor.let_go.remote()

    async def ended(self) -> None:
        """Wait for the end that was asked for, then end the actor, and with it what is left."""
        await asyncio.wait({self._end}, timeout=self._grace_s + _BEYOND_GRACE_S)
        self._end.cancel()
        self._ray.kill(self._actor)

    async def _followed(self) -> tuple[str, list[str] | None]:
        errors = self._ray.exceptions
        while True:
            try:
                ending, lines = await self._actor.end.remote(_SHOWN_LINES)
                return f"{ending} on node {self._place.host}", lines
            except errors.ActorUnavailableError:  # perhaps only for now
                await asyncio.sleep(_AGAIN_S)
            except errors.RayError as error:
                return self._lost(error), None

    def _lost(self, error: Exception) -> str:
        nodes = {node["NodeID"]: node["Alive"] for node in self._ray.nodes()}
        if not nodes.get(self._place.node_id, False):
            return f"is gone with its node {self._place.host}"
        return f"is gone: its actor on node {self._place.host} has ended ({cause_of(error)})"
