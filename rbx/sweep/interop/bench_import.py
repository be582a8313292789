"""Results of ``vllm bench serve`` as a sweep of ours, called foreign wherever it shows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from rbx.config.base import digest
from rbx.config.policy import ExternalPolicy
from rbx.durable import write_table
from rbx.errors import DatasetError, StoreError
from rbx.sweep.interop.bench_file import SHORTEST_S, BenchFile
from rbx.sweep.live.table import LIVE, live_table, write_live
from rbx.sweep.provenance import provenance
from rbx.sweep.records import RECORDS
from rbx.sweep.served import SERVED, write_served
from rbx.sweep.store import CellSpec, SweepStore, sha256_of

TOOL = "vllm bench serve"
FOREIGN = "foreign"


def import_results(results: Sequence[tuple[str, BenchFile]], folder: Path) -> list[CellSpec]:
    """Write results (name of the file, content) as the cells of a new sweep in ``folder``.

    The folder is there once it is whole. Raises ``StoreError`` where something is there already,
    ``DatasetError`` for the same result twice.
    """
    specs = _specs(results)
    try:
        final = folder.resolve()
        _refuse_taken(final)
        final.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{final.name}.", dir=final.parent) as beside:
            made = Path(beside) / final.name
            _write(made, results, specs)
            made.rename(final)
    except OSError as error:
        raise StoreError(f"{folder}: can't be written: {error.strerror or error}") from None
    return specs


def _refuse_taken(folder: Path) -> None:
    """What is renamed may take the place of an empty folder, and of nothing else."""
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists():
        raise StoreError(f"{folder}: something is there already; choose another --out")


def _write(folder: Path, results: Sequence[tuple[str, BenchFile]], specs: Sequence[CellSpec]) -> None:
    store = SweepStore(folder)
    with store.locked():
        longest = max(len(result.input_lens) for _, result in results)
        write_table(_labels(results, longest), folder / "labels.parquet")
        manifest = _manifest(folder.name, results, specs)
        store.write_manifest({**manifest, "labels_sha256": sha256_of(folder / "labels.parquet")})
        for (_, result), spec in zip(results, specs, strict=True):
            write_live(folder, spec.cell_id, live_table(_live_rows(result)))
            if result.generated_texts is not None:
                write_served(folder, spec.cell_id, _served(result))
            records = _records(result, spec, _tiers(results)[_model(result)])
            store.write_cell(records, _summary(result, spec))


def _specs(results: Sequence[tuple[str, BenchFile]]) -> list[CellSpec]:
    """One cell a result; results of one label and rate stand beside each other as seeds do."""
    specs: list[CellSpec] = []
    for name, result in results:
        policy = ExternalPolicy(name=result.label or result.model_id or _shown(Path(name).stem))
        rate_per_s = _rate_per_s(result)
        content = hashlib.sha256(result.model_dump_json().encode()).hexdigest()
        alike = [spec for spec in specs if (spec.label, spec.rate_per_s) == (policy.label, rate_per_s)]
        spec = CellSpec(
            cell_id=content[:16],
            label=policy.label,
            policy=policy.model_dump(mode="json"),
            rate_per_s=rate_per_s,
            load=None,
            seed=len(alike),
            workload_hash=content[16:32],
            n_requests=len(result.input_lens),
        )
        if any(spec.cell_id == other.cell_id for other in specs):
            raise DatasetError(f"{name}: the same result is given twice")
        specs.append(spec)
    return specs


def _rate_per_s(result: BenchFile) -> float:
    """What was asked for; where that was "all at once", what was sent by the time that it took."""
    if isinstance(result.request_rate, float | int):
        return float(result.request_rate)
    span_s = max(result.start_times) - min(result.start_times)
    n = len(result.start_times)
    return float(f"{(n - 1) / span_s if n > 1 and span_s > SHORTEST_S else n / result.duration:.4g}")


def _shown(name: str) -> str:
    """A file's name, which may hold anything, as a text that any file and terminal can carry."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:200]


def _manifest(
    name: str, results: Sequence[tuple[str, BenchFile]], specs: Sequence[CellSpec]
) -> dict[str, Any]:
    tiers = _tiers(results)
    pool = {
        "name": ", ".join(tiers),
        "tiers": [{"name": tier, "model": model} for model, tier in tiers.items()],
        "instances": [{"name": f"{tier}/0", "tier": tier, "model": model} for model, tier in tiers.items()],
    }
    return {
        "name": name,
        "engine": "foreign",
        "foreign": {
            "tool": TOOL,
            "files": sorted({_shown(Path(file).name) for file, _ in results}),
            "dates": sorted({result.date for _, result in results if result.date}),
        },
        "simulated": False,
        "synthetic_grid": False,
        "grid": {"name": "none", "metric": "none"},
        "bundle": None,
        "pool": {**pool, "digest": digest(pool)},
        "capacity": None,
        "config": {"workload": {"slo": {}}},
        "sources": {},
        "cells": [asdict(spec) for spec in specs],
        **provenance(),
    }


def _model(result: BenchFile) -> str:
    return result.model_id or "unknown"


def _tiers(results: Sequence[tuple[str, BenchFile]]) -> dict[str, str]:
    """The tier that stands for the servers of each model."""
    models = sorted({_model(result) for _, result in results})
    return {model: FOREIGN if len(models) == 1 else f"{FOREIGN}-{k}" for k, model in enumerate(models)}


def _prompt_id(request: int) -> str:
    """The file does not hold prompts: requests of one number are taken for one prompt."""
    return f"request-{request:06d}"


def _labels(results: Sequence[tuple[str, BenchFile]], longest: int) -> pa.Table:
    """Nothing is known of any answer's worth."""
    models = list(_tiers(results))
    most = np.zeros(longest, dtype=np.int64)
    inputs = np.ones(longest, dtype=np.int64)
    for _, result in results:
        n = len(result.input_lens)
        most[:n] = np.maximum(most[:n], result.output_lens)
        inputs[:n] = np.maximum(inputs[:n], result.input_lens)
    prompt_ids = np.repeat([_prompt_id(request) for request in range(longest)], len(models))
    return pa.table(
        {
            "prompt_id": pa.array(prompt_ids, pa.string()),
            "model": pa.array(models * longest),
            "score": pa.nulls(len(prompt_ids), pa.float64()),
            "output_tokens": pa.array(np.repeat(most, len(models)), pa.int32()),
            "input_tokens": pa.array(np.repeat(inputs, len(models)), pa.int32()),
        }
    )


def _records(result: BenchFile, spec: CellSpec, tier: str) -> pa.Table:
    """What the file tells, null for the rest: nothing of quality, cost, decisions or the schedule."""
    begun_s = _begun_s(result)
    empty = dict.fromkeys(RECORDS.names)
    rows = []
    for request, ok in enumerate(result.succeeded):
        sent_s = result.start_times[request] - begun_s
        waited_s = result.queue_times[request] if result.queue_times is not None else 0.0
        rows.append(
            {
                **empty,
                "cell_id": spec.cell_id,
                "request": request,
                "prompt_id": _prompt_id(request),
                "attempt": 1,
                "scheduled_s": max(0.0, sent_s - waited_s),
                "sent_s": sent_s,
                "first_token_s": sent_s + result.ttfts[request] if ok else None,
                "done_s": sent_s + result.ends_s[request] if ok else None,
                "status": "ok" if ok else "error",
                "instance": f"{tier}/0",
                "tier": tier,
                "model": _model(result),
                "input_tokens": result.input_lens[request],
                "output_tokens": result.output_lens[request] if ok else None,
                "tokens_source": "usage" if ok else None,
                "quality_source": "lookup",
                "quality_status": "missing",
                "exhausted": False,
                "decision_mode": "policy",
            }
        )
    return pa.Table.from_pylist(rows, schema=RECORDS)


def _begun_s(result: BenchFile) -> float:
    """Zero of the cell's clock: when the first request was due, as far as the file tells."""
    waits = result.queue_times or [0.0] * len(result.start_times)
    return min(start - wait for start, wait in zip(result.start_times, waits, strict=True))


def _live_rows(result: BenchFile) -> list[dict[str, Any]]:
    begun_s = _begun_s(result)
    empty: dict[str, Any] = dict.fromkeys(LIVE.names)
    rows = []
    for request, ok in enumerate(result.succeeded):
        sent_s = result.start_times[request] - begun_s
        gaps = np.cumsum([0.0, *result.itls[request]]) if ok else np.zeros(0)
        chunks = sent_s + result.ttfts[request] + gaps
        rows.append(
            {
                **empty,
                "request": request,
                "last_token_s": sent_s + result.ends_s[request] if ok else None,
                "closed_s": sent_s + result.ends_s[request] if ok else None,
                "chunk_s": chunks.tolist(),
                "chunk_tokens": [1] * len(chunks),
                "fault": None if ok else "foreign",
                "detail": None if ok else result.errors[request] or "no output",
                "usage_disagrees": ok and len(chunks) != result.output_lens[request],
            }
        )
    return rows


def _served(result: BenchFile) -> pa.Table:
    texts = result.generated_texts or []
    return pa.Table.from_pylist(
        [
            {
                "request": request,
                "prompt_id": _prompt_id(request),
                "model": _model(result),
                "response": texts[request],
                "output_tokens": result.output_lens[request],
                "finish_reason": None,
            }
            for request, ok in enumerate(result.succeeded)
            if ok
        ],
        schema=SERVED,
    )


def _summary(result: BenchFile, spec: CellSpec) -> dict[str, Any]:
    n, ok, begun_s = spec.n_requests, result.completed, _begun_s(result)
    ends = [
        start - begun_s + latency
        for start, latency, good in zip(result.start_times, result.ends_s, result.succeeded, strict=True)
        if good
    ]
    nothing = ("not_sent", "timeout", "cancelled", "steps", "preemptions", "batches", "infeasible", "alarms")
    return {
        "cell_id": spec.cell_id,
        "scheduled": n,
        "sent": n,
        "ok": ok,
        "error": n - ok,
        **dict.fromkeys(nothing, 0),
        "busy_s": {},
        "duration_s": max(ends, default=0.0),
    }
