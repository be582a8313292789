"""A cell as the result file of ``vllm bench serve --save-detailed``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ConfigDict

from rbx.config.base import StrictModel, parse
from rbx.durable import write_text
from rbx.errors import StoreError, UsageError
from rbx.sweep.interop.bench_metrics import BenchRequest, bench_metrics
from rbx.sweep.live.table import FOLDER as LIVE_FOLDER
from rbx.sweep.live.table import LIVE, read_live, table_fault
from rbx.sweep.served import read_served_cell
from rbx.sweep.store import CellSpec, CellSummary, SweepStore


class _Part(StrictModel):
    """Keys that are not exported are left alone."""

    model_config = ConfigDict(extra="ignore")


class _Tier(_Part):
    model: str


class _Pool(_Part):
    name: str
    tiers: list[_Tier]


class _Workload(_Part):
    arrivals: dict[str, Any] | None = None


class _Config(_Part):
    workload: _Workload


class _Manifest(_Part):
    """What is told of a sweep in the file of a cell."""

    name: str
    pool: _Pool
    config: _Config
    cells: list[CellSpec]
    created: str | None = None


def _manifest(store: SweepStore) -> _Manifest:
    return parse(_Manifest, store.read_manifest(), where=str(store.folder / "manifest.json"))


def cell_of(store: SweepStore, name: str) -> CellSpec:
    """The cell of a sweep whose id begins with ``name``; raises ``UsageError`` unless it is exactly one.

    ``ConfigError`` for a manifest that lacks what is told of a cell.
    """
    specs = _manifest(store).cells
    found = [spec for spec in specs if spec.cell_id.startswith(name)]
    if len(found) != 1:
        shown = "; ".join(f"{spec.cell_id} {spec.label} at {spec.rate_per_s:g}/s" for spec in found or specs)
        what = "several cells" if found else "no cell"
        raise UsageError(f"{store.folder}: {what} of id {name!r}; there are: {shown}")
    return found[0]


def export_cell(store: SweepStore, spec: CellSpec, out: Path) -> dict[str, Any]:
    """Write one finished cell to ``out`` and return what was written.

    ``rbx_invalid`` is there for a cell that counts for nothing, with the reasons. Raises ``StoreError`` for a
    cell that is not finished or can't be read, ``ConfigError`` for such a manifest.
    """
    summary = store.finished(spec.cell_id)
    if summary is None:
        raise StoreError(f"{store.folder}: cell {spec.cell_id} is not finished; run the same rbx sweep again")
    requests, good = _requests(store, spec)
    content = bench_result(_manifest(store), spec, summary, requests, good)
    if invalid := _invalid(store, summary):
        content["rbx_invalid"] = invalid
    write_text(_json(content), out)
    return content


def _invalid(store: SweepStore, summary: CellSummary) -> list[str]:
    """Why a live cell counts for nothing, as ``rbx report`` sees it; empty where it counts."""
    if summary.live is None:
        return []
    lost = table_fault(store.folder, summary.cell_id, summary.live.table_sha256)
    return [*summary.live.reasons, *([] if lost is None else [lost])]


def bench_result(
    manifest: _Manifest,
    spec: CellSpec,
    summary: CellSummary,
    requests: Sequence[BenchRequest],
    good: int | None,
) -> dict[str, Any]:
    """The content of the file: vLLM's names, and what only we know under ``rbx_``.

    The duration is from the first send to the last completion. Goodput counts what met the experiment's
    own targets, which go from the scheduled time.
    """
    models = sorted({tier.model for tier in manifest.pool.tiers})
    model = models[0] if len(models) == 1 else f"rbx pool {manifest.pool.name}"
    ended = [r.start_time + r.latency for r in requests if r.success]
    begun_s = min((r.start_time for r in requests), default=0.0)
    duration_s = max(ended) - begun_s if ended else 1.0
    started = summary.live.started if summary.live is not None else manifest.created
    return {
        "date": _date(started),
        "endpoint_type": "openai-chat",
        "backend": "openai-chat",
        "label": spec.label,
        "model_id": model,
        "tokenizer_id": model,
        "num_prompts": len(requests),
        "request_rate": spec.rate_per_s,
        "burstiness": _burstiness(manifest.config.workload.arrivals or {}),
        "max_concurrency": None,
        "rbx_sweep": manifest.name,
        "rbx_cell": spec.cell_id,
        "rbx_seed": spec.seed,
        "rbx_simulated": summary.live is None or summary.live.simulated,
        "request_goodput": None,
        **bench_metrics(requests, duration_s, good),
        "input_lens": [request.prompt_len for request in requests],
        "output_lens": [request.output_tokens if request.success else 0 for request in requests],
        "ttfts": [request.ttft for request in requests],
        "itls": [list(request.itl) for request in requests],
        "latencies": [request.latency for request in requests],
        "start_times": [request.start_time for request in requests],
        "queue_times": [request.queue_time for request in requests],
        "generated_texts": [request.text for request in requests],
        "errors": [request.error for request in requests],
    }


def _requests(store: SweepStore, spec: CellSpec) -> tuple[list[BenchRequest], int | None]:
    """The cell's requests in workload order, and how many met their targets; None without any."""
    path = store.records_path(spec.cell_id)
    try:
        records = pq.read_table(path).sort_by("request")
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{path}: can't be read: {error}") from None
    live_path = store.folder / LIVE_FOLDER / f"{spec.cell_id}.parquet"
    live = read_live(store.folder, spec.cell_id) if live_path.exists() else LIVE.empty_table()
    stamped = {row["request"]: row for row in live.select(_STAMPS).to_pylist()}
    served = read_served_cell(store.folder, spec.cell_id)
    texts = dict(zip(served["request"].to_pylist(), served["response"].to_pylist(), strict=True))
    rows = records.select(_COLUMNS).to_pylist()
    met = [row["slo_met"] for row in rows if row["slo_met"] is not None]
    good = sum(row["slo_met"] is True and row["status"] == "ok" for row in rows) if met else None
    return [_request(row, stamped.get(row["request"]), texts.get(row["request"])) for row in rows], good


_STAMPS = ["request", "chunk_s", "fault", "detail"]
_COLUMNS = [
    "request",
    "scheduled_s",
    "sent_s",
    "first_token_s",
    "done_s",
    "status",
    "input_tokens",
    "output_tokens",
    "slo_met",
]


def _request(row: dict[str, Any], stamps: dict[str, Any] | None, text: str | None) -> BenchRequest:
    ok = row["status"] == "ok"
    start_s = row["scheduled_s"] if row["sent_s"] is None else row["sent_s"]
    done_s = start_s if row["done_s"] is None else row["done_s"]
    # An answer without a token has no first one; vLLM's files have no word for that but the end.
    first_s = (done_s if ok else start_s) if row["first_token_s"] is None else row["first_token_s"]
    chunk_s = (stamps or {}).get("chunk_s") or []
    return BenchRequest(
        success=ok,
        prompt_len=row["input_tokens"] or 0,
        output_tokens=row["output_tokens"] or 0,
        start_time=start_s,
        ttft=first_s - start_s,
        latency=done_s - start_s,
        itl=tuple(np.diff(np.array(chunk_s, dtype=np.float64)).tolist()) if ok else (),
        text=text or "",
        error="" if ok else _why(row["status"], stamps or {}),
        queue_time=max(0.0, start_s - row["scheduled_s"]),
    )


def _why(status: str, stamps: dict[str, Any]) -> str:
    parts = [status, stamps.get("fault"), stamps.get("detail")]
    return ": ".join(part for part in parts if part)


def _date(started: str | None) -> str | None:
    return None if started is None else datetime.fromisoformat(started).strftime("%Y%m%d-%H%M%S")


def _burstiness(arrivals: Mapping[str, Any]) -> float | None:
    """vLLM's word for the shape of gamma gaps; its files know no other process."""
    kind = arrivals.get("kind", "poisson")
    return 1.0 if kind == "poisson" else arrivals.get("burstiness") if kind == "gamma" else None


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, allow_nan=False, ensure_ascii=False) + "\n"
