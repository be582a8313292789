"""Servers in processes of their own, and an open-loop client in front of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

POOL = Path(__file__).parents[1] / "experiments/pools/paper.yaml"
START_S = 180.0
RBX = (sys.executable, "-m", "rbx")
_LINES = 20

Floats = Any


class Served(NamedTuple):
    """Where a server listens, and its process."""

    port: int
    pid: int

    @property
    def cpu_s(self) -> float:
        """Processor time so far, of this process alone."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_ports(n: int) -> list[int]:
    """Ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(n)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


@contextlib.contextmanager
def serving(
    command: Sequence[object], port: int, environment: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """Run ``command`` until the end of the block, which begins when ``port`` takes connections."""
    words = [str(word) for word in command]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, **(environment or {})})
        try:
            until_s = time.monotonic() + START_S
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > until_s:
                    log.seek(0)
                    last = b"\n".join(log.read().splitlines()[-_LINES:]).decode("utf-8", "replace")
                    raise RuntimeError(f"{' '.join(words)} did not start:\n{last}")
                time.sleep(0.1)
            yield Served(port, process.pid)
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def gateway(endpoints: Path, *options: object) -> Iterator[Served]:
    """``rbx serve`` in front of the paper's pool."""
    (port,) = free_ports(1)
    command = (*RBX, "serve", "--pool", POOL, "--endpoints", endpoints, "--port", port, *options)
    with serving(command, port) as served:
        yield served


@dataclass(frozen=True)
class Load:
    """Requests at equal distances, whatever becomes of the others; ``body`` makes the k-th one's."""

    rate_per_s: float
    seconds: float
    body: Callable[[int], Mapping[str, Any]]

    @property
    def requests(self) -> int:
        """How many."""
        return round(self.rate_per_s * self.seconds)


@dataclass(frozen=True)
class Heard:
    """Of n requests in seconds from each one's sending, NaN where it failed; ``gaps_s`` lie between events.

    ``first_s`` (n,) is when the first bytes of the body came, ``whole_s`` (n,) all of it; ``told`` are the
    response headers.
    """

    first_s: Floats
    whole_s: Floats
    gaps_s: Floats
    told: list[Mapping[str, str]]

    @property
    def failed(self) -> int:
        """Requests without a whole answer."""
        return int(np.isnan(self.whole_s).sum())


def joined(parts: Sequence[Heard]) -> Heard:
    """Several rounds as one."""
    return Heard(
        np.concatenate([part.first_s for part in parts]),
        np.concatenate([part.whole_s for part in parts]),
        np.concatenate([part.gaps_s for part in parts]),
        [told for part in parts for told in part.told],
    )


def client() -> Any:
    """A session with connections for everybody, which it gives up before a server does."""
    import aiohttp

    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=2.0))


async def heard(session: Any, ports: Sequence[int], load: Load) -> Heard:
    """Send the load, to the ports in turn."""
    import aiohttp

    n = load.requests
    first_s, whole_s = np.full(n, np.nan), np.full(n, np.nan)
    gaps_s: list[float] = []
    told: list[Mapping[str, str]] = []
    start_s = time.perf_counter() + 0.05

    async def ask(k: int) -> None:
        body = load.body(k)
        await asyncio.sleep(start_s + k / load.rate_per_s - time.perf_counter())
        sent_s = time.perf_counter()
        url = f"http://127.0.0.1:{ports[k % len(ports)]}/v1/chat/completions"
        try:
            async with session.post(url, json=body) as answer:
                if answer.status != 200:
                    return
                before_s, last = 0.0, b""
                async for piece in answer.content.iter_any():
                    at_s = time.perf_counter()
                    if before_s:
                        gaps_s.append(at_s - before_s)
                    else:
                        first_s[k] = at_s - sent_s
                    before_s, last = at_s, piece
                told.append(dict(answer.headers))
                if not body.get("stream") or b"[DONE]" in last:
                    whole_s[k] = before_s - sent_s
        except (aiohttp.ClientError, OSError):
            return

    await asyncio.gather(*(ask(k) for k in range(n)))
    return Heard(first_s, whole_s, np.array(gaps_s), told)


def milliseconds(seconds: Floats) -> dict[str, float]:
    """Median and tails; raises ``RuntimeError`` where nothing came."""
    known = seconds[~np.isnan(seconds)]
    if not len(known):
        raise RuntimeError("no request was answered")
    shares = {"median": 50.0, "p90": 90.0, "p99": 99.0}
    return {name: round(1e3 * float(np.percentile(known, share)), 3) for name, share in shares.items()}
