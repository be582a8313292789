"""Prefix caches: no cell is to inherit what another one has warmed, and what it hit is told."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from rbx.config.endpoints import InstanceEndpoint
from rbx.serve.watch.addresses import Addresses
from rbx.serve.watch.fetch import Unanswered
from rbx.sweep.live.asking import Asker
from rbx.sweep.live.fault import TargetFault
from rbx.sweep.live.server_pages import GATEWAY

RESET_PATH = "/reset_prefix_cache"
_TRIES, _PAUSE_S = 5, 0.5  # blocks may be held for a moment after the last request
# The names of vLLM V1, and those of its first releases.
_QUERIES = ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total")
_HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total")
_SAMPLE = re.compile(r"([a-z_:]+)(?:\{.*\})?\s+(\S+)(?:\s+-?\d+)?\s*", re.ASCII)


def salt(cell_id: str) -> dict[str, str]:
    """What a cell adds to every body so that it hits no other cell's blocks (vLLM's ``cache_salt``)."""
    return {"cache_salt": f"rbx-{cell_id}"}


@dataclass(frozen=True)
class PrefixHits:
    """Tokens looked up and found in the servers' prefix caches between two looks at their counters.

    ``missing`` names the servers without such counters, ``restarted`` those whose counters went back: both
    are left out of the sums.
    """

    queries: float
    hits: float
    missing: tuple[str, ...]
    restarted: tuple[str, ...]

    @property
    def rate(self) -> float | None:
        """Share of the tokens that were found; None where none were looked up."""
        return self.hits / self.queries if self.queries > 0 else None


def prefix_hits(before: Mapping[str, str], after: Mapping[str, str]) -> PrefixHits:
    """What the counters on pages of ``/metrics`` (by instance) have grown by.

    A server that is on one side only counts as one without counters; the gateway's own page is passed over.
    """
    queries = hits = 0.0
    missing, restarted = [], []
    for name in sorted({*before, *after} - {GATEWAY}):
        old, new = _counted(before.get(name, "")), _counted(after.get(name, ""))
        if old is None or new is None:
            missing.append(name)
        elif new[0] < old[0] or new[1] < old[1]:
            restarted.append(name)
        else:
            queries += new[0] - old[0]
            hits += new[1] - old[1]
    return PrefixHits(queries, hits, tuple(missing), tuple(restarted))


def _counted(page: str) -> tuple[float, float] | None:
    """Queries and hits over all engines of a page; None where either is not told."""
    sums: dict[str, float] = {}
    for line in page.splitlines():
        if not line.startswith((*_QUERIES, *_HITS)):
            continue
        match = _SAMPLE.fullmatch(line)
        if match is None or match[1] not in (*_QUERIES, *_HITS):
            continue  # such as prefix_cache_queries_created
        try:
            value = float(match[2])
        except ValueError:
            return None
        if not math.isfinite(value) or value < 0.0:
            return None
        sums[match[1]] = sums.get(match[1], 0.0) + value
    queries = next((sums[name] for name in _QUERIES if name in sums), None)
    hits = next((sums[name] for name in _HITS if name in sums), None)
    return None if queries is None or hits is None else (queries, hits)


async def reset_all(asker: Asker, endpoints: Mapping[str, InstanceEndpoint]) -> tuple[str, ...]:
    """Have every server drop its prefix cache; raises ``TargetFault`` with those that do not."""
    whys = await asyncio.gather(*(_reset(asker, endpoint) for endpoint in endpoints.values()))
    faults = [
        f"  {name} at {endpoint.url}: {why}"
        for (name, endpoint), why in zip(endpoints.items(), whys, strict=True)
        if why
    ]
    if faults:
        raise TargetFault(
            "not_reset",
            f"{len(faults)} of {len(endpoints)} servers did not drop their prefix cache:\n"
            + "\n".join(faults)
            + "\nvLLM has that page with VLLM_SERVER_DEV_MODE=1 in its environment; live.prefix_cache: salt "
            "needs none",
        )
    return tuple(endpoints)


async def _reset(asker: Asker, endpoint: InstanceEndpoint) -> str:
    """Why it failed; empty where it did not. vLLM says ``success: false`` while blocks are held."""
    pages = Addresses.of(endpoint)
    address = pages.models.removesuffix("/v1/models") + RESET_PATH
    why = ""
    for turn in range(_TRIES):
        if turn:
            await asyncio.sleep(_PAUSE_S)
        try:
            answer = await asker.send("POST", address, pages.headers(address))
        except Unanswered as fault:
            why = f"no answer ({fault})"
            continue
        if not answer.ok:
            return f"HTTP {answer.status} at {RESET_PATH}"
        told = answer.json
        if not (isinstance(told, dict) and told.get("success") is False):
            return ""  # older releases answer with nothing
        why = "its blocks are still held (success: false); something runs there"
    return why
