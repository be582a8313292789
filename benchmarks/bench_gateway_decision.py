"""RouteBalance's whole decision in the gateway: prompt read, heads asked, thirteen instances scored.

The heads are trained here on as many synthetic prompts as the paper had, with the static encoder, unless
``RBX_BENCH_BUNDLE`` names a bundle for the paper's pool. Servers answer at once. The decision is what the
gateway says of it (``x-rbx-decision-ms``): from the request's arrival, with its wait for a batch.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.instant_server import TOKENS, instant_pool
from benchmarks.serving import POOL, RBX, Heard, Load, client, gateway, heard, milliseconds

RATES_PER_S = (30.0, 200.0)
SECONDS = 8.0
WARM_S = 1.0
GRID = POOL.parents[1] / "datasets/synth-routebalance.yaml"
SENTENCE = "Explain in simple terms how a hash table finds a value, and when its lookups get slow. "


def rows() -> list[dict[str, Any]]:
    """Decision and added latency at each rate."""
    found = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bundle = os.environ.get("RBX_BENCH_BUNDLE") or _bundle(folder)
        _, ports = stack.enter_context(instant_pool(POOL, folder / "endpoints.yaml"))
        options = ("--bundle", bundle, "--policy", "routebalance")
        served = stack.enter_context(gateway(folder / "endpoints.yaml", *options))
        for rate_per_s in RATES_PER_S:
            direct = asyncio.run(_round(ports, rate_per_s))
            through = asyncio.run(_round([served.port], rate_per_s))
            found += _rows(direct, through, rate_per_s)
    return found


def _bundle(folder: Path) -> Path:
    train = (*RBX, "train", folder / "grid", "--pool", POOL, "--encoder", "static", "--no-compare")
    for command in (
        (*RBX, "build-dataset", GRID, "--out", folder / "grid"),
        (*train, "--out", folder / "bundle"),
    ):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"rbx {command[3]} failed: {done.stderr[-2000:]}")
    return folder / "bundle"


async def _round(ports: list[int], rate_per_s: float) -> Heard:
    async with client() as session:
        await heard(session, ports, Load(rate_per_s, WARM_S, _body))
        return await heard(session, ports, Load(rate_per_s, SECONDS, _body))


def _body(k: int) -> Mapping[str, Any]:
    """Some sixty tokens, and no two prompts alike."""
    messages = [{"role": "user", "content": f"{k}. {SENTENCE * 3}"}]
    return {"model": "auto", "messages": messages, "max_tokens": TOKENS}


def _rows(direct: Heard, through: Heard, rate_per_s: float) -> list[dict[str, Any]]:
    where = f"RouteBalance in the gateway, static encoder, 13 instances, {rate_per_s:g} requests/s"
    decision_s = np.array([float(each["x-rbx-decision-ms"]) / 1e3 for each in through.told])
    modes = {each["x-rbx-decision-mode"] for each in through.told}
    told, own, bare = (milliseconds(each) for each in (decision_s, through.whole_s, direct.whole_s))
    counted = {"requests": len(through.whole_s), "failed": through.failed, "modes": ", ".join(sorted(modes))}
    return [
        {
            "path": f"{where}, decision, median",
            "ours": told["median"],
            "unit": "ms",
            "p90": told["p90"],
            "p99": told["p99"],
            **counted,
        },
        {
            "path": f"{where}, added to a plain answer, median",
            "ours": own["median"] - bare["median"],
            "unit": "ms",
            "added_p90": own["p90"] - bare["p90"],
            "added_p99": own["p99"] - bare["p99"],
        },
    ]
