"""What runs on a node of a Ray cluster: one actor beside each server that it has started.

The actor lives as long as the driver; its server's guard hears of its end, however it comes. Our code is
sent along, so a node needs Ray and vLLM only: whatever this module imports keeps to the standard library.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rbx.cache_home import cache_home
from rbx.serve.launch.child import Child
from rbx.serve.launch.ports import address_of, bound

_LOOK_S = 0.1


class Place(NamedTuple):
    """A free port on the actor's node, kept for its server; ``missing`` if the node lacks the program."""

    node_id: str
    host: str
    port: int
    url: str
    missing: bool


class TierActor:
    """Starts one server and says how it ends."""

    def __init__(self) -> None:
        """Nothing is started yet."""
        self._held: socket.socket | None = None
        self._child: Child | None = None

    async def place(self, program: str) -> Place:
        """Where the server will answer."""
        import ray

        host = ray.util.get_node_ip_address()
        self._held = bound(host, 0)
        port = int(self._held.getsockname()[1])
        node = ray.get_runtime_context().get_node_id()
        return Place(node, host, port, address_of(self._held), shutil.which(program) is None)

    async def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path | None,
        pool: str,
        grace_s: float,
    ) -> tuple[Path, str]:
        """Start the server; its log, and what went wrong or nothing."""
        folder = folder or cache_home() / "launch" / pool
        log = folder / f"{name.replace('/', '-')}.log"
        if self._held is not None:
            self._held.close()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._child = Child(name, command, environment, log, grace_s)
        except OSError as error:
            return log, error.strerror or str(error)
        return log, ""

    async def end(self, lines: int) -> tuple[str, list[str]]:
        """Wait for the server's end; how it ended, and the end of its log."""
        while (ending := self._started.ending) is None:
            await asyncio.sleep(_LOOK_S)
        return ending, self._started.last_lines(lines)

    async def last_lines(self, count: int) -> list[str]:
        """The end of the log."""
        return self._started.last_lines(count)

    async def let_go(self) -> None:
        """Ask for the server's end."""
        self._started.let_go()

    @property
    def _started(self) -> Child:
        assert self._child is not None, "started first"
        return self._child
