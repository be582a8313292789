"""What a gateway adds to a request: ours with the null policy, and others, before the same instant servers.

Thirteen servers in one process, each gateway in a process of its own. The client is open-loop: request k
is sent at its time whatever the others do, straight to the servers and through each gateway in turn, in
several rounds. Added is the difference of medians, or of tails. Who can't keep up with a rate is left out
after the first round.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.instant_server import TOKENS, instant_pool
from benchmarks.peer_gateways import PEERS, peer_gateway
from benchmarks.serving import POOL, Heard, Load, client, gateway, heard, joined, milliseconds

RATES_PER_S = (20.0, 200.0)
ROUND_S = 4.0
ROUNDS = 3
WARM_S = 2.0
TOO_SLOW_S = 0.25  # an answer takes longer than this where requests pile up
MODEL = "rbx"
DIRECT, OURS = "direct", "rbx"
NULL_POLICY = ("--policy", "{kind: passthrough, dispatch: [shortest-queue]}")
BODY = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "How long does this take, and why?"}],
    "max_tokens": TOKENS,
}


def rows() -> list[dict[str, Any]]:
    """A line for each rate, kind of answer and gateway, and for each gateway that is not installed."""
    absent = [peer for peer in PEERS if peer.found is None]
    found = [*_measured()]
    return found + [{"path": f"{peer.name}: not installed: {peer.install}"} for peer in absent]


def _measured() -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _, ports = stack.enter_context(instant_pool(POOL, folder / "endpoints.yaml"))
        paths = {DIRECT: ports}
        paths[OURS] = [stack.enter_context(gateway(folder / "endpoints.yaml", *NULL_POLICY)).port]
        for peer in PEERS:
            if peer.found is not None:
                paths[peer.name] = [stack.enter_context(peer_gateway(peer, ports, MODEL, folder)).port]
        for rate_per_s in RATES_PER_S:
            for stream in (False, True):
                times = asyncio.run(_compared(paths, rate_per_s, stream=stream))
                yield from _rows(times, rate_per_s, stream=stream)


async def _compared(paths: Mapping[str, list[int]], rate_per_s: float, *, stream: bool) -> dict[str, Heard]:
    def load(seconds: float) -> Load:
        return Load(rate_per_s, seconds, lambda k: {**BODY, "stream": stream})

    async with client() as session:
        first = {name: await heard(session, ports, load(WARM_S)) for name, ports in paths.items()}
        kept_up = [name for name, each in first.items() if np.nanmedian(each.whole_s) <= TOO_SLOW_S]
        parts: dict[str, list[Heard]] = {name: [] for name in kept_up}
        for _ in range(ROUNDS):
            for name in kept_up:
                parts[name].append(await heard(session, paths[name], load(ROUND_S)))
    return {name: joined(parts[name]) if name in parts else first[name] for name in paths}


def _rows(times: Mapping[str, Heard], rate_per_s: float, *, stream: bool) -> Iterator[dict[str, Any]]:
    kind = f"first token of a stream of {TOKENS}" if stream else "plain answer"
    told = {name: milliseconds(each.first_s if stream else each.whole_s) for name, each in times.items()}
    ours = told[OURS]["median"] - told[DIRECT]["median"]
    for name, each in told.items():
        if name == DIRECT:
            continue
        added = {f"added_{share}": each[share] - told[DIRECT][share] for share in ("p90", "p99")}
        row: dict[str, Any] = {
            "path": f"{name} adds to a {kind}, {rate_per_s:g} requests/s, median",
            "ours": ours,
            "unit": "ms",
            **added,
            **{f"direct_{share}": value for share, value in told[DIRECT].items()},
            "requests": len(times[name].whole_s),
            "failed": times[name].failed,
        }
        if each["median"] > 1e3 * TOO_SLOW_S:
            row["path"] += ": can't keep up, seconds and growing"
        elif name != OURS:
            peer = each["median"] - told[DIRECT]["median"]
            row.update(peer=peer, peer_name=name, ratio=peer / ours)
        yield row
