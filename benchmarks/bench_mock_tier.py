"""The mock tier at the paper's load: the share of a core that 13 instances take, and how late they are."""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from rbx.config.endpoints import load_endpoints

POOL = Path(__file__).resolve().parents[1] / "experiments" / "pools" / "paper.yaml"
RATE, TOKENS, LOAD_S = 30.0, 200, 20.0
START_S = 180.0
PROMPT = "What does it cost to answer one more question? " * 20


def rows() -> list[dict[str, Any]]:
    """CPU time of the servers' process during the load over the time that the load takes."""
    with _serving() as (process_id, urls):
        before_s = _cpu_s(process_id)
        tokens, wall_s, lag_s = asyncio.run(_load(urls))
        cpu_s = _cpu_s(process_id) - before_s
    label = f"mock tier: 13 instances, {RATE:.0f} req/s x {TOKENS} tokens"
    return [
        {
            "path": f"{label}, cores in use",
            "ours": cpu_s / wall_s,
            "unit": "cores",
            "tokens_per_s": tokens / wall_s,
        },
        {"path": f"{label}, CPU a token", "ours": 1e6 * cpu_s / tokens, "unit": "us"},
        {"path": f"{label}, worst lag of the last 10 s", "ours": 1e3 * lag_s, "unit": "ms"},
    ]


@contextmanager
def _serving() -> Iterator[tuple[int, list[str]]]:
    """The command in a process of its own: its id and where its instances answer."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "endpoints.yaml"
        command = [
            sys.executable,
            "-m",
            "rbx",
            "mock-tier",
            str(POOL),
            "--port",
            "0",
            "--endpoints-out",
            str(out),
        ]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                end_s = time.monotonic() + START_S
                while not out.exists():
                    if process.poll() is not None or time.monotonic() > end_s:
                        raise RuntimeError("the mock tier did not start")
                    time.sleep(0.1)
                urls = [each.url for each in load_endpoints(out).value.instances.values()]
                yield process.pid, urls
            finally:
                process.kill()


def _cpu_s(process_id: int) -> float:
    """User and system time of a process of this machine so far (Linux)."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _load(urls: list[str]) -> tuple[int, float, float]:
    """Tokens heard, seconds, and the largest lag that an instance tells."""
    loop, gaps = asyncio.get_running_loop(), random.Random(0)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        started_s = at_s = loop.time()
        answers: list[asyncio.Task[int]] = []
        while at_s < started_s + LOAD_S:
            await asyncio.sleep(max(0.0, at_s - loop.time()))
            url = urls[len(answers) % len(urls)]
            answers.append(asyncio.create_task(_ask(session, url, f"{len(answers)} {PROMPT}")))
            at_s += gaps.expovariate(RATE)
        tokens = sum(await asyncio.gather(*answers))
        wall_s = loop.time() - started_s
        if tokens != TOKENS * len(answers):
            raise RuntimeError(f"{tokens} tokens came of {TOKENS * len(answers)}")
        return tokens, wall_s, max([await _lag_s(session, url) for url in urls])


async def _ask(session: aiohttp.ClientSession, url: str, prompt: str) -> int:
    body = {"prompt": prompt, "max_tokens": TOKENS, "ignore_eos": True, "stream": True}
    async with session.post(f"{url}/completions", json=body) as response:
        return sum([line.startswith(b"data: {") async for line in response.content])


async def _lag_s(session: aiohttp.ClientSession, url: str) -> float:
    async with session.get(f"{url.removesuffix('/v1')}/metrics") as response:
        found = re.search(r"^rbx_mock_lag_seconds (\S+)$", await response.text(), re.MULTILINE)
    return float(found[1]) if found else float("nan")
