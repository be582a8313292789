"""Read a sweep directory: what can be reported, what can't and why, and what was never run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ValidationError

from rbx.errors import StoreError
from rbx.report.cell_file import parse_summary
from rbx.report.columns import column_faults
from rbx.report.conservation import faults
from rbx.report.labels import Labels, read_labels
from rbx.report.manifest import Manifest, read_manifest
from rbx.report.membership import strangers
from rbx.report.ontime.rule import OnTimeRule
from rbx.report.plain_faults import plain_faults
from rbx.report.requests import Requests, to_requests
from rbx.sweep.live.table import table_fault
from rbx.sweep.records import ADMISSION, MODELS_ASKED, SCORING_WAIT, records_schema
from rbx.sweep.store import CellSpec, CellSummary, SweepStore


@dataclass(frozen=True)
class Cell:
    """One finished cell that adds up."""

    spec: CellSpec
    summary: CellSummary
    requests: Requests


@dataclass(frozen=True)
class InvalidCell:
    """A finished cell that can't be reported, and everything that is wrong with it.

    A live cell may say itself that it counts for nothing: its client was late, its servers were others.
    """

    spec: CellSpec
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Sweep:
    """A sweep directory in memory; cells stand in the order of the manifest.

    ``prompt_ids`` are sorted; ``Requests.prompt`` numbers them. ``unmatched`` holds one line for each
    completed request that has no quality score; ``on_time`` is None where no request has a TTFT target.
    """

    folder: Path
    manifest: dict[str, Any]
    prompt_ids: tuple[str, ...]
    cells: tuple[Cell, ...]
    invalid: tuple[InvalidCell, ...]
    missing: tuple[CellSpec, ...]
    labels: Labels
    unmatched: int
    on_time: OnTimeRule | None


def read_sweep(folder: Path, *, strict: bool = False) -> Sweep:
    """Read and check every cell.

    Raises ``StoreError`` where the directory is no sweep, where its manifest or labels are at fault,
    where no cell at all can be reported, or with ``strict`` where a cell is invalid or a completed
    request has no score.
    """
    store = SweepStore(folder)
    manifest = read_manifest(store)
    labels = read_labels(folder / "labels.parquet", manifest.models, manifest.labels_sha256)
    labelled = pa.array(labels.prompt_ids, pa.string())
    read: list[tuple[CellSpec, CellSummary, pa.Table]] = []
    invalid: list[InvalidCell] = []
    missing: list[CellSpec] = []
    for spec in manifest.specs:
        if not store.summary_path(spec.cell_id).exists():
            missing.append(spec)
            continue
        found = _read_cell(store, spec, manifest, labelled)
        if isinstance(found, InvalidCell):
            invalid.append(found)
        else:
            read.append((spec, *found))
    if not read:
        raise StoreError(_nothing_left(folder, invalid, missing))
    unmatched = [line for _, _, table in read for line in _unmatched(table)]
    if strict:
        _refuse_gaps(folder, invalid, unmatched)
    ids = tuple(sorted({each for _, _, table in read for each in table["prompt_id"].unique().to_pylist()}))
    numbered = pa.array(ids, pa.string())
    return Sweep(
        folder=folder,
        manifest=manifest.content,
        prompt_ids=ids,
        cells=tuple(Cell(spec, summary, to_requests(table, numbered)) for spec, summary, table in read),
        invalid=tuple(invalid),
        missing=tuple(missing),
        labels=labels.of(ids),
        unmatched=len(unmatched),
        on_time=manifest.on_time,
    )


def _read_cell(
    store: SweepStore, spec: CellSpec, manifest: Manifest, labelled: pa.Array
) -> tuple[CellSummary, pa.Table] | InvalidCell:
    path, summary_path = store.records_path(spec.cell_id), store.summary_path(spec.cell_id)
    try:
        summary = parse_summary(summary_path.read_bytes())
    except ValidationError as error:
        return InvalidCell(spec, tuple(f"{summary_path.name}: {line}" for line in plain_faults(error)))
    except OSError as error:
        return InvalidCell(spec, (f"{summary_path.name} can't be read: {error}",))
    try:
        content = path.read_bytes()
        table = pq.read_table(pa.BufferReader(content))
        table.validate(full=True)
    except (OSError, pa.ArrowException) as error:
        return InvalidCell(spec, (f"{path.name} can't be read: {error}",))
    if hashlib.sha256(content).hexdigest() != summary.records_sha256:
        return InvalidCell(spec, (f"{path.name} is not the file its summary was written for",))
    if summary.live is not None:
        if not summary.live.valid:
            return InvalidCell(spec, summary.live.reasons)
        if lost := table_fault(store.folder, spec.cell_id, summary.live.table_sha256):
            return InvalidCell(spec, (f"{lost}; rbx sweep --retry-invalid measures the cell anew",))
    names = table.column_names
    schema = records_schema(
        scored_before_batch=SCORING_WAIT.name in names,
        filtered=ADMISSION[0].name in names,
        cascaded=MODELS_ASKED.name in names,
    )
    reasons = column_faults(table, schema)
    if not reasons:
        reasons = faults(
            table,
            summary,
            spec,
            has_targets=manifest.has_targets,
            has_ttft_targets=manifest.on_time is not None,
            has_costs=not manifest.is_foreign,
        )
        reasons += strangers(table, summary, spec, manifest, labelled)
    return InvalidCell(spec, tuple(reasons)) if reasons else (summary, table)


def _refuse_gaps(folder: Path, invalid: list[InvalidCell], unmatched: list[str]) -> None:
    if invalid:
        raise StoreError(
            f"{folder}: {len(invalid)} cell(s) can't be reported (--strict), first:\n" + _listed(invalid)
        )
    if unmatched:
        shown = "\n  ".join(unmatched[:5])
        raise StoreError(
            f"{folder}: {len(unmatched)} completed requests have no quality score (--strict), "
            f"first:\n  {shown}"
        )


def _listed(invalid: list[InvalidCell]) -> str:
    return "\n".join(
        f"  {cell.spec.cell_id} ({cell.spec.label}): {'; '.join(cell.reasons)}" for cell in invalid[:5]
    )


def _nothing_left(folder: Path, invalid: list[InvalidCell], missing: list[CellSpec]) -> str:
    lines = [f"{folder}: no cell can be reported: {len(invalid)} invalid, {len(missing)} not finished"]
    if invalid:
        lines.append(_listed(invalid))
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
