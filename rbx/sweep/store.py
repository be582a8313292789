"""A sweep on disk (``results/SWEEP/``): manifest, one Parquet file a cell, the labels it was scored by.

::

    manifest.json            effective config with the source of each value, digests, versions, cells
    cells/CELL.parquet       records of one cell (``rbx.sweep.records.RECORDS``)
    cells/CELL.json          counts and engine figures of the cell (``CellSummary``)
    labels.parquet           prompt_id, model, score, output_tokens, input_tokens: for reference lines
    report/                  written by ``rbx report``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
    """Counts of one finished cell; ``busy_s`` holds engine-busy seconds per instance name."""

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
    duration_s: float
