"""Read a sweep directory: what can be reported, what can't and why, and what was never run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rbx.errors import StoreError
from rbx.report.conservation import faults
from rbx.report.labels import Labels, read_labels
from rbx.report.requests import Requests, to_requests
from rbx.sweep.store import CellSpec, CellSummary, SweepStore


@dataclass(frozen=True)
class Cell:
    """One finished cell that adds up."""

    spec: CellSpec
    summary: CellSummary
    requests: Requests


@dataclass(frozen=True)
class InvalidCell:
    """A finished cell that can't be reported, and everything that is wrong with it."""

    spec: CellSpec
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Sweep:
    """A sweep directory in memory; cells stand in the order of the manifest.

    ``prompt_ids`` are sorted; ``Requests.prompt`` numbers them. ``unmatched`` holds one line for each
    completed request that has no quality score.
    """

    folder: Path
    manifest: dict[str, Any]
    prompt_ids: tuple[str, ...]
    cells: tuple[Cell, ...]
    invalid: tuple[InvalidCell, ...]
    missing: tuple[CellSpec, ...]
    labels: Labels
    unmatched: int


def read_sweep(folder: Path, *, strict: bool = False) -> Sweep:
    """Read and check every cell.

    Raises ``StoreError`` where the directory is no sweep, where no cell at all can be reported, or
    with ``strict`` where a completed request has no score.
    """
    store = SweepStore(folder)
    manifest = store.read_manifest()
    specs = _specs(manifest, folder)
    read: list[tuple[CellSpec, CellSummary, pa.Table]] = []
    invalid: list[InvalidCell] = []
    missing: list[CellSpec] = []
    for spec in specs:
        if not store.summary_path(spec.cell_id).exists():
            missing.append(spec)
            continue
        found = _read_cell(store, spec)
        if isinstance(found, InvalidCell):
            invalid.append(found)
        else:
            read.append((spec, *found))
    if not read:
        raise StoreError(_nothing_left(folder, invalid, missing))
    ids = sorted({each for _, _, table in read for each in table["prompt_id"].unique().to_pylist()})
    numbered = pa.array(ids, pa.string())
    cells = tuple(Cell(spec, summary, to_requests(table, numbered)) for spec, summary, table in read)
    unmatched = [line for _, _, table in read for line in _unmatched(table)]
    if strict and unmatched:
        shown = "\n  ".join(unmatched[:5])
        raise StoreError(
            f"{folder}: {len(unmatched)} completed requests have no quality score (--strict), "
            f"first:\n  {shown}"
        )
    labels = read_labels(folder / "labels.parquet", tuple(ids))
    return Sweep(folder, manifest, tuple(ids), cells, tuple(invalid), tuple(missing), labels, len(unmatched))


def _specs(manifest: dict[str, Any], folder: Path) -> list[CellSpec]:
    known = {field.name for field in fields(CellSpec)}
    try:
        specs = [CellSpec(**{k: v for k, v in cell.items() if k in known}) for cell in manifest["cells"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{folder}/manifest.json: cells: not a list of cells: {error}") from None
    if not specs:
        raise StoreError(f"{folder}/manifest.json: cells: the sweep plans no cell")
    return specs


def _read_cell(store: SweepStore, spec: CellSpec) -> tuple[CellSummary, pa.Table] | InvalidCell:
    path = store.records_path(spec.cell_id)
    try:
        summary = CellSummary(**json.loads(store.summary_path(spec.cell_id).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        return InvalidCell(spec, (f"{store.summary_path(spec.cell_id).name} can't be read: {error}",))
    try:
        content = path.read_bytes()
        table = pq.read_table(pa.BufferReader(content))
    except (OSError, pa.ArrowException) as error:
        return InvalidCell(spec, (f"{path.name} can't be read: {error}",))
    if hashlib.sha256(content).hexdigest() != summary.records_sha256:
        return InvalidCell(spec, (f"{path.name} is not the file its summary was written for",))
    reasons = faults(table, summary, spec)
    return InvalidCell(spec, tuple(reasons)) if reasons else (summary, table)


def _nothing_left(folder: Path, invalid: list[InvalidCell], missing: list[CellSpec]) -> str:
    lines = [f"{folder}: no cell can be reported: {len(invalid)} invalid, {len(missing)} not finished"]
    lines += [f"  {cell.spec.cell_id} ({cell.spec.label}): {'; '.join(cell.reasons)}" for cell in invalid[:5]]
    if missing:
        lines.append("  run the same rbx sweep command again to finish it")
    return "\n".join(lines)


def _unmatched(table: pa.Table) -> list[str]:
    """One line for each completed request without a score."""
    lost = pc.and_(pc.equal(table["status"].cast(pa.string()), "ok"), pc.is_null(table["quality"]))
    named = ["cell_id", "request", "prompt_id", "quality_status"]
    return [
        "cell {cell_id} request {request} prompt {prompt_id}: {quality_status}".format(**row)
        for row in table.filter(lost).select(named).to_pylist()
    ]
