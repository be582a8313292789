"""The load client: how well it keeps a schedule, what an event costs, and whose figures are true.

The server follows a script and tells when it wrote what (``benchmarks.scripted_server``): a client's TTFT,
from its real send, and gaps between tokens are compared with that. CPU time of a client is that of its
processes, start-up taken off by the difference of a long and a short run.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.load_peers import INPUT_TOKENS, MODEL, PEERS, Claim, NotInstalled, Run
from rbx.config.live import LoadClient
from rbx.load.client.health import ClientHealth
from rbx.load.client.journal import read_journal
from rbx.load.client.request import LoadRequest, LoadTarget
from rbx.load.client.result import LoadResult
from rbx.load.client.run import run_load

TTFT_S, GAP_S = 0.1, 0.01
STEADY_PER_S, STEADY_TOKENS, STEADY_S = 30.0, 200, 20.0
STREAMS_PER_S, STREAM_TOKENS, STREAMS_S = 800.0, 32, 8.0
PEER_PER_S, PEER_TOKENS, PEER_REQUESTS = 20.0, 32, (40, 400)
_SENT = f"{PEER_REQUESTS[1]} requests at {PEER_PER_S:g}/s x {PEER_TOKENS} tokens"
FIGURES = {
    "cpu": (f"CPU time of a million tokens, {_SENT}", "s"),
    "ttft": ("mean TTFT, claimed - true", "ms"),
    "ttft_p99": ("p99 TTFT, claimed - true", "ms"),
    "gap": ("mean time between tokens, claimed - true", "ms"),
}


def rows() -> list[dict[str, Any]]:
    found = [_steady(), *_streams()]
    with _server(TTFT_S, GAP_S) as url:
        found += _compared(url)
    return found


def _steady() -> dict[str, Any]:
    with _server(TTFT_S, GAP_S) as url, _one_core():
        health, results = _ours(Run(url, STEADY_PER_S, STEADY_TOKENS, round(STEADY_PER_S * STEADY_S)))
    assert all(each.status == "ok" for each in results)
    return {
        "path": f"{STEADY_PER_S:g} req/s x {STEADY_TOKENS} tokens, one process: p99 schedule delay",
        "ours": 1e3 * (health.schedule_delay_p99_s or 0.0),
        "unit": "ms",
        "aim": "below 10 ms",
        "core_share": health.cpu_s / STEADY_S,
        "loop_lag_p99_ms": 1e3 * (health.loop_lag_p99_s or 0.0),
    }


def _streams() -> Iterator[dict[str, Any]]:
    for factor in (1.0, 2.0):
        per_s = factor * STREAMS_PER_S
        with _server(0.0, 0.0) as url, _one_core():
            health, results = _ours(Run(url, per_s, STREAM_TOKENS, round(per_s * STREAMS_S)))
        ok = [each for each in results if each.status == "ok"]
        done_s = max(each.done_s or 0.0 for each in ok)
        yield {
            "path": f"{per_s:g} req/s asked, streams of {STREAM_TOKENS} chunks, one process",
            "ours": len(ok) / done_s,
            "unit": "req/s",
            "failed": len(results) - len(ok),
            "core_share": health.cpu_s / done_s,
            "delay_p99_ms": 1e3 * (health.schedule_delay_p99_s or 0.0),
        }


def _ours(run: Run) -> tuple[ClientHealth, list[LoadResult]]:
    prompt = "w1 " * INPUT_TOKENS
    body = {"model": MODEL, "prompt": prompt, "max_tokens": run.tokens, "ignore_eos": True, "stream": True}
    data = json.dumps({**body, "stream_options": {"include_usage": True}}).encode()
    requests = [
        LoadRequest(number, number / run.per_s, "/completions", data) for number in range(run.requests)
    ]
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal.jsonl"
        health = run_load(requests, LoadTarget(run.url), LoadClient(), journal, 30.0)
        return health, list(read_journal(journal))


def _our_claim(run: Run) -> Claim:
    _, results = _ours(run)
    ttft_ms = np.array([1e3 * ((each.first_token_s or 0.0) - (each.sent_s or 0.0)) for each in results])
    gaps_ms = np.concatenate([1e3 * np.diff(each.chunk_s) for each in results])
    return Claim(float(ttft_ms.mean()), float(np.percentile(ttft_ms, 99)), float(gaps_ms.mean()))


def _compared(url: str) -> list[dict[str, Any]]:
    """For CPU time and for the error of each figure one row of ours, then one a peer."""
    measured = {"rbx": _measured(url, _our_claim)}
    absent: dict[str, str] = {}
    for name, peer in PEERS.items():
        try:
            measured[name] = _measured(url, peer)
        except NotInstalled as error:
            absent[name] = str(error)
    found: list[dict[str, Any]] = []
    for key, (path, unit) in FIGURES.items():
        ours = measured["rbx"]
        for name in ("rbx", *PEERS):
            row: dict[str, Any] = {"path": f"{path}: {name}", "unit": unit}
            if name in absent:
                row["peer_name"] = absent[name]
            elif name == "rbx":
                row["ours"] = ours[key]
            else:
                peer_s = measured[name][key]
                row |= {
                    "ours": ours[key],
                    "peer": peer_s,
                    "ratio": abs(peer_s / ours[key]),
                    "peer_name": name,
                }
            if f"true_{key}" in measured.get(name, {}):
                row["true_ms"] = measured[name][f"true_{key}"]
            found.append(row)
    return found


def _measured(url: str, client: Callable[[Run], Claim]) -> dict[str, float]:
    cpu_s, tokens = [], []
    for requests in PEER_REQUESTS:
        _truth(url)
        before_s = _children_cpu_s()
        claim = client(Run(url, PEER_PER_S, PEER_TOKENS, requests))
        cpu_s.append(_children_cpu_s() - before_s)
        truth = _truth(url)
        tokens.append(truth["tokens"])
    ttft_ms, gap_ms = 1e3 * np.array(truth["ttft_s"]), 1e3 * np.array(truth["gap_s"])
    true = {"ttft": ttft_ms.mean(), "ttft_p99": np.percentile(ttft_ms, 99), "gap": gap_ms.mean()}
    return {
        "cpu": 1e6 * (cpu_s[1] - cpu_s[0]) / (tokens[1] - tokens[0]),
        "ttft": claim.ttft_ms - true["ttft"],
        "ttft_p99": claim.ttft_p99_ms - true["ttft_p99"],
        "gap": claim.gap_ms - true["gap"],
        **{f"true_{key}": float(value) for key, value in true.items()},
    }


def _children_cpu_s() -> float:
    """Of all processes that were started from here and have ended, theirs included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _truth(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url.removesuffix("/v1") + "/truth") as answer:
        told: dict[str, Any] = json.loads(answer.read())
    return told


@contextlib.contextmanager
def _server(ttft_s: float, gap_s: float) -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.scripted_server", str(ttft_s), str(gap_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.stdin.close()


@contextlib.contextmanager
def _one_core() -> Iterator[None]:
    """Processes that are started in the block run on one core, where the system can hold them to it."""
    if sys.platform != "linux":
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
