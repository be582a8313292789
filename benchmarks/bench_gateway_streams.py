"""Thirteen simulated instances at RouteBalance's highest rate, streamed through one gateway process.

30 requests/s of 200 tokens are 6,000 events a second. The client sends them to the instances in turn, then
through a gateway that does the same, so that the instances have the same work both times.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving import POOL, RBX, Heard, Load, Served, client, gateway, heard, milliseconds, serving
from rbx.config.pool import load_pool

RATE_PER_S, OUTPUT_TOKENS, PROMPT_TOKENS = 30.0, 200, 200
SECONDS, STEADY_S = 24.0, 12.0  # answers take some ten seconds: then as many end as begin
IN_TURN = ("--policy", "{kind: passthrough, dispatch: [round-robin]}")


def rows() -> list[dict[str, Any]]:
    """Cores used by the gateway, and what it adds to the first token and between tokens."""
    models = [instance.tier.model for instance in load_pool(POOL).value.instances]
    n = len(models)
    first = _free_range(n + 1)
    with tempfile.TemporaryDirectory() as folder:
        endpoints = Path(folder) / "endpoints.yaml"
        tier = (*RBX, "mock-tier", POOL, "--port", first, "--endpoints-out", endpoints)
        with serving(tier, first + n), gateway(endpoints, *IN_TURN) as through:
            direct, _ = asyncio.run(_round(range(first, first + n), through, models))
            passed, cores = asyncio.run(_round([through.port], through, ["auto"]))
    return [*_rows(direct, passed, cores)]


async def _round(ports: Sequence[int], watched: Served, models: Sequence[str]) -> tuple[Heard, float]:
    """What came, and how many cores ``watched`` has used while as many answers ended as began.

    ``models`` are asked for in turn.
    """

    async def cores() -> float:
        await asyncio.sleep(STEADY_S)
        before_s = watched.cpu_s
        await asyncio.sleep(SECONDS - STEADY_S)
        return (watched.cpu_s - before_s) / (SECONDS - STEADY_S)

    load = Load(RATE_PER_S, SECONDS, lambda k: _body(k, models[k % len(models)]))
    async with client() as session:
        return await asyncio.gather(heard(session, ports, load), cores())


def _body(k: int, model: str) -> Mapping[str, Any]:
    return {
        "model": model,
        "messages": [{"role": "user", "content": f"What came of request {k}?"}],
        "stream": True,
        "rbx_prompt_tokens": PROMPT_TOKENS,
        "rbx_output_tokens": OUTPUT_TOKENS,
    }


def _rows(direct: Heard, passed: Heard, cores: float) -> list[dict[str, Any]]:
    load = f"{RATE_PER_S:g} streams/s of {OUTPUT_TOKENS} tokens through one gateway"
    counted = {
        "events_per_s": round(RATE_PER_S * OUTPUT_TOKENS),
        "requests": len(passed.whole_s),
        "failed": passed.failed,
        "failed_direct": direct.failed,
    }
    found: list[dict[str, Any]] = [{"path": f"{load}, cores", "ours": cores, "unit": "cores", **counted}]
    for name, one, other in (
        ("first token", direct.first_s, passed.first_s),
        ("time between tokens", direct.gaps_s, passed.gaps_s),
    ):
        bare, own = milliseconds(one), milliseconds(other)
        row = {
            "path": f"{load}, added to {name}, median",
            "ours": own["median"] - bare["median"],
            "unit": "ms",
        }
        row["added_p99"] = own["p99"] - bare["p99"]
        row.update({f"direct_{share}": value for share, value in bare.items()})
        found.append(row)
    return found


def _free_range(n: int) -> int:
    """The first of ``n`` ports in a row that nobody listens on."""
    for first in np.random.default_rng().integers(20_000, 60_000, 100).tolist():
        with suppress(OSError):
            for port in range(first, first + n):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return int(first)
    raise RuntimeError(f"no {n} free ports in a row")
