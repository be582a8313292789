"""A sweep on disk (``results/SWEEP/``): manifest, one Parquet file a cell, the labels it was scored by.

::

    manifest.json            effective config with the source of each value, digests, versions, cells,
                             capacity, and what the decision loop can take (``decision_loop_per_s``)
    cells/CELL.parquet       records of one cell (``rbx.sweep.records.RECORDS``)
    cells/CELL.json          counts and engine figures of the cell (``CellSummary``); written last
    labels.parquet           prompt_id, model, score, output_tokens, input_tokens: for reference lines
    predictions.parquet      prompt_id, model, quality, length_tokens: what the policies decided by
    live/, served/, server/  of live cells: ``rbx.sweep.live.table``, ``.served`` and ``.live.server_pages``
    found_config.json        while a live sweep has replaced a gateway's configuration: what stood there
    journal/CELL.jsonl       of a live cell under way; its results, the moment they exist
    report/                  written by ``rbx report``

A cell is finished when its JSON is there and names the digest of its Parquet. ``kill -9`` at any
point loses at most the cells under way.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import ConfigDict, TypeAdapter

from rbx.durable import clear_leftovers, held, write_json, write_table
from rbx.errors import StoreError
from rbx.sweep.live.summary import LiveSummary


@dataclass(frozen=True)
class CellSpec:
    """One cell: a policy on a workload at one rate and seed. ``cell_id`` hashes the effective config."""

    cell_id: str
    label: str
    policy: dict[str, Any]
    rate_per_s: float
    load: float | None  # fraction of the measured capacity, where the experiment asked by load
    seed: int
    workload_hash: str
    n_requests: int


@dataclass(frozen=True)
class CellSummary:
    """Counts of one finished cell; ``busy_s`` holds engine-busy seconds per instance name.

    ``live`` is of live cells alone; theirs know nothing of the engine's own figures.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    cell_id: str
    scheduled: int
    sent: int
    not_sent: int
    ok: int
    error: int
    timeout: int
    cancelled: int
    busy_s: dict[str, float]
    steps: int
    preemptions: int
    batches: int
    infeasible: int
    alarms: int
    duration_s: float
    records_sha256: str
    live: LiveSummary | None = None


_SUMMARY = TypeAdapter(CellSummary)


class SweepStore:
    """One results directory."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read or written yet."""
        self.folder = folder
        self.cells = folder / "cells"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory for one sweep process; a second one is refused, not queued.

        Raises ``StoreError`` for a directory that is not a sweep's: nothing is written there.
        """
        self._check_kind()
        try:
            self.cells.mkdir(parents=True, exist_ok=True)  # before the lock: a lock alone is no sweep
        except OSError as error:
            raise StoreError(f"{self.folder}: can't be written: {error.strerror}") from None
        with held(self.folder, "another sweep is writing here; wait for it or use --out"):
            clear_leftovers(self.folder)
            clear_leftovers(self.cells)
            yield

    def _check_kind(self) -> None:
        # Grids and bundles have a manifest of the same name; the folder of cells stands in a sweep alone.
        if self.folder.is_file():
            raise StoreError(f"{self.folder}: is a file; choose another --out")
        if self.folder.is_dir() and any(self.folder.iterdir()) and not self.cells.is_dir():
            raise StoreError(f"{self.folder}: holds something that is not a sweep; choose another --out")

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Replace the manifest."""
        write_json(manifest, self.folder / "manifest.json")

    def read_manifest(self) -> dict[str, Any]:
        """The manifest; raises ``StoreError`` where there is none."""
        path = self.folder / "manifest.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise StoreError(f"{self.folder}: no manifest.json; is this a sweep's directory?") from None
        except (OSError, ValueError, RecursionError) as error:
            raise StoreError(f"{path}: can't be read: {error}") from None
        if not isinstance(data, dict):
            raise StoreError(f"{path}: expected a JSON object")
        return data

    def write_cell(self, records: pa.Table, summary: dict[str, Any]) -> CellSummary:
        """Records first, then the summary that makes the cell count as finished; returns the latter."""
        path = self.records_path(summary["cell_id"])
        write_table(records, path)
        done = CellSummary(**summary, records_sha256=sha256_of(path))
        content = asdict(done)
        if done.live is None:
            del content["live"]
        write_json(content, self.summary_path(done.cell_id))
        return done

    def is_finished(self, cell_id: str) -> bool:
        """Whether the cell's summary is whole, adds up, and speaks of the records that are there."""
        return self.finished(cell_id) is not None

    def finished(self, cell_id: str) -> CellSummary | None:
        """The summary of a finished cell; None where it is not finished."""
        try:
            summary = _SUMMARY.validate_json(self.summary_path(cell_id).read_bytes())
            whole = (
                summary.cell_id == cell_id
                and summary.scheduled == summary.sent + summary.not_sent
                and summary.sent == summary.ok + summary.error + summary.timeout + summary.cancelled
                and summary.records_sha256 == sha256_of(self.records_path(cell_id))
            )
        except (OSError, ValueError):
            return None
        return summary if whole else None

    def records_path(self, cell_id: str) -> Path:
        """Where a cell's records lie."""
        return self.cells / f"{cell_id}.parquet"

    def summary_path(self, cell_id: str) -> Path:
        """Where a cell's summary lies."""
        return self.cells / f"{cell_id}.json"


def sha256_of(path: Path) -> str:
    """Digest of a file of the store."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
