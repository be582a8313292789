"""Live cells whose truth is known: the simulator plays the servers, and each token is stamped by its step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rbx.config.pool import Tier
from rbx.engine.simulator import EngineSim
from rbx.sweep.compare.cell_run import CellRun, to_cell_run
from rbx.sweep.context import SweepContext
from rbx.sweep.live.summary import LiveSummary
from rbx.sweep.live.table import LIVE, live_table, write_live
from rbx.sweep.plan import expand_policies
from rbx.sweep.prompts import save_prompt_table
from rbx.sweep.scoring import simulated_records
from rbx.sweep.simulate import Outcome, SimulatedCell
from rbx.sweep.store import CellSpec, SweepStore
from rbx.sweep.workload import Arriving, draw_workload
from tests.sweep.scenes import small_context

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scene:
    """A cell as simulated on ``servers``, and as a live sweep would have kept it."""

    spec: CellSpec
    context: SweepContext
    arriving: Arriving
    outcome: Outcome
    records: pa.Table
    live: pa.Table

    @property
    def cell(self) -> CellRun:
        return to_cell_run(self.spec, self.records, self.live, self.context.pool)


def play(
    servers: tuple[Tier, ...] | None = None,
    *,
    number: int = 0,
    rate_per_s: float = 20.0,
    seed: int = 0,
    jitter_s: float = 0.0,
    n_requests: int = 600,
    **changes: Any,
) -> Scene:
    """Policy ``number`` of the experiment on ``servers`` (the pool's own unless given)."""
    workload = {"n_requests": n_requests, **changes.pop("workload", {})}
    context = small_context(workload=workload, **changes)
    policy = expand_policies(context.experiment, context.pool.models)[number]
    arriving = draw_workload(context.experiment.workload, context.prompts.input_tokens, rate_per_s, seed)
    tiers = servers or tuple(instance.tier for instance in context.pool.instances)
    outcome = SimulatedCell(context, policy, arriving, seed, tiers).run()
    spec = CellSpec(
        cell_id=f"{number:02d}{rate_per_s:g}x{seed}".replace(".", "_"),
        label=policy.label,
        policy=policy.model_dump(mode="json"),
        rate_per_s=rate_per_s,
        load=None,
        seed=seed,
        workload_hash=arriving.hash,
        n_requests=len(arriving.prompt),
    )
    records = simulated_records(spec.cell_id, context, arriving, outcome)
    network_s = context.experiment.scheduler.network_s
    stamps = token_stamps(tiers, records, context, outcome, network_s)
    rng = np.random.default_rng([seed, number])
    late = [_jittered(tokens, jitter_s, rng) for tokens in stamps]
    return Scene(spec, context, arriving, outcome, records, live_table(_live_rows(late, outcome)))


def _jittered(tokens_s: Floats, jitter_s: float, rng: np.random.Generator) -> Floats:
    late = tokens_s + rng.exponential(jitter_s, len(tokens_s)) if jitter_s else tokens_s
    return np.maximum.accumulate(late)


def _live_rows(stamps: list[Floats], outcome: Outcome) -> list[dict[str, Any]]:
    empty: dict[str, Any] = dict.fromkeys(LIVE.names)
    cut = outcome.wanted_tokens >= outcome.max_tokens
    return [
        {
            **empty,
            "request": request,
            "last_token_s": tokens_s[-1],
            "closed_s": tokens_s[-1],
            "chunk_s": tokens_s,
            "chunk_tokens": [1] * len(tokens_s),
            "finish_reason": "length" if cut[request] else "stop",
        }
        for request, tokens_s in enumerate(stamps)
    ]


def token_stamps(
    tiers: tuple[Tier, ...], records: pa.Table, context: SweepContext, outcome: Outcome, network_s: float
) -> list[Floats]:
    """When each token of each request reached the client, by walking every server from step to step."""
    inputs, stamps = records["input_tokens"].to_numpy(), [np.zeros(0)] * records.num_rows
    for number, tier in enumerate(tiers):
        requests = np.flatnonzero(outcome.instance == number)
        engine = EngineSim([tier], len(requests))
        slots = engine.submit_many(
            np.zeros(len(requests), dtype=np.int64),
            outcome.dispatched_s[requests] + network_s,
            inputs[requests].astype(np.int64),
            outcome.output_tokens[requests],
            outcome.output_tokens[requests],
            outcome.wanted_tokens[requests] >= outcome.max_tokens[requests],
        )
        given = np.zeros(len(requests), dtype=np.int64)
        found: list[list[float]] = [[] for _ in requests]
        while (given < outcome.output_tokens[requests]).any():
            boundary_s = max(engine.next_boundary_s, np.nextafter(engine.clock_s, np.inf))
            engine.advance(boundary_s)
            now = engine.output_tokens(slots)
            for row in np.flatnonzero(now > given).tolist():
                found[row] += [boundary_s + network_s] * int(now[row] - given[row])
            given = now
        for row, request in enumerate(requests.tolist()):
            stamps[request] = np.array(found[row])
    return stamps


def write_store(folder: Path, scenes: Sequence[Scene], time_scale: float | None = None) -> Path:
    """The directory that a live sweep of ``scenes`` would have left; they share pool and prompts."""
    context, store = scenes[0].context, SweepStore(folder)
    store.cells.mkdir(parents=True)
    save_prompt_table(context.prompts, folder)
    pool = context.pool
    store.write_manifest(
        {
            "name": "live",
            "engine": "live",
            "simulated": False,
            "synthetic_grid": True,
            "grid": {"name": "made up", "metric": "quality"},
            "bundle": {"path": "absent", "digest": "none", "encoder": "none"},
            "pool": {
                "name": pool.name,
                "digest": pool.digest,
                "instances": [
                    {"name": i.name, "tier": i.tier.name, "model": i.tier.model} for i in pool.instances
                ],
                "tiers": [tier.model_dump(mode="json") for tier in pool.tiers],
            },
            "capacity": None,
            "config": context.experiment.model_dump(mode="json"),
            "sources": {},
            "cells": [asdict(scene.spec) for scene in scenes],
        }
    )
    for scene in scenes:
        n = scene.spec.n_requests
        live = LiveSummary(
            reasons=(),
            warnings=(),
            fault=None,
            simulated=time_scale is not None,
            time_scale=time_scale,
            started="2026-01-01T00:00:00+00:00",
            config_version=None,
            client={},
            warm_up={},
            prefix_cache=None,
        )
        ok = scene.records["status"].to_pylist().count("ok")
        counts = {"scheduled": n, "sent": n, "not_sent": 0, "ok": ok, "error": n - ok}
        nothing = dict.fromkeys(
            ("timeout", "cancelled", "steps", "preemptions", "batches", "infeasible", "alarms"), 0
        )
        ended = {"duration_s": float(scene.outcome.done_s.max()), "busy_s": {}, "live": live}
        store.write_cell(scene.records, {"cell_id": scene.spec.cell_id, **counts, **nothing, **ended})
        write_live(folder, scene.spec.cell_id, scene.live)
    return folder
