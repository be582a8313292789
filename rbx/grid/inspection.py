"""``rbx dataset check``: every fault and every remarkable share of a grid, not only the first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rbx.grid.manifest import Manifest
from rbx.grid.rules import Finding, label_faults, prompt_faults, response_faults
from rbx.grid.store import Tables, counts_of, read_tables


@dataclass(frozen=True)
class Coverage:
    """Labels of one (model, metric) and how the others are missing."""

    model: str
    metric: str
    prompts: int
    present: int
    missing: int
    judge_failed: int

    @property
    def share(self) -> float:
        """Present / prompts."""
        return self.present / self.prompts if self.prompts else 0.0


@dataclass(frozen=True)
class Inspection:
    """Faults fail the check; warnings and coverage inform."""

    name: str
    digest: str
    synthetic: bool
    faults: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    coverage: tuple[Coverage, ...]
    truncated_share: dict[str, float | None]  # by model; None where no finish reason is known

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"ok": not self.faults, **asdict(self)}


def inspect_grid(folder: Path) -> Inspection:
    """Check a grid directory; raises ``DatasetError`` only where its files can't be read or were altered."""
    manifest, tables = read_tables(folder)
    faults = tuple(_faults(manifest, tables))
    return Inspection(
        name=manifest.name,
        digest=manifest.digest,
        synthetic=manifest.synthetic,
        faults=faults,
        warnings=tuple(_warnings(manifest, tables)),
        coverage=tuple(_coverage(manifest, tables)),
        truncated_share={model: _truncated(tables.responses, model) for model in manifest.models},
    )


def _faults(manifest: Manifest, tables: Tables) -> Iterator[Finding]:
    ids = tables.prompts["prompt_id"]
    yield from prompt_faults(tables.prompts)
    yield from response_faults(tables.responses, ids, manifest.models)
    yield from label_faults(tables.labels, ids, manifest.models, manifest.metrics)
    found = counts_of(tables.prompts, tables.responses, tables.labels, manifest.counts.duplicate_prompts)
    if found != manifest.counts:
        what = f"counts {manifest.counts!r}, the tables hold {found!r}"
        yield Finding("counts", "manifest.json", None, "counts", 1, what)
    if manifest.counts.labels_present == 0:
        yield Finding("empty", "labels.parquet", None, "score", manifest.counts.labels, "no label is present")


def _warnings(manifest: Manifest, tables: Tables) -> Iterator[Finding]:
    yield from _near_duplicates(tables.prompts)
    for split in ("train", "test"):
        if split not in pc.unique(tables.prompts["split"]).to_pylist():
            yield Finding("split", "prompts.parquet", None, "split", 0, f"no {split} prompt")
    unlabelled = manifest.counts.labels - manifest.counts.labels_present
    if unlabelled:
        row = int(np.flatnonzero(tables.labels["score"].is_null().to_numpy())[0])
        what = f"{unlabelled:,} of {manifest.counts.labels:,} labels are missing"
        yield Finding("coverage", "labels.parquet", row + 1, "score", unlabelled, what)
    unknown = tables.responses["output_tokens"].null_count
    if unknown:
        row = int(np.flatnonzero(tables.responses["output_tokens"].is_null().to_numpy())[0])
        what = f"{unknown:,} answers have no length; a sweep leaves their prompts out"
        yield Finding("coverage", "responses.parquet", row + 1, "output_tokens", unknown, what)


def _near_duplicates(prompts: pa.Table) -> Iterator[Finding]:
    """Prompts of both splits that differ only in case and white space."""
    first: dict[str, tuple[int, str]] = {}
    crossing = []
    for row, (text, split) in enumerate(
        zip(prompts["prompt"].to_pylist(), prompts["split"].to_pylist(), strict=True)
    ):
        _, other = first.setdefault(" ".join(text.lower().split()), (row, split))
        if other != split:
            crossing.append(row)
    if crossing:
        what = "the same text but for case and white space as a prompt of the other split"
        yield Finding("overlap", "prompts.parquet", crossing[0] + 1, "prompt", len(crossing), what)


def _coverage(manifest: Manifest, tables: Tables) -> Iterator[Coverage]:
    labels = tables.labels
    for metric in manifest.metrics:
        for model in manifest.models:
            rows = pc.and_(pc.equal(labels["metric"], metric), pc.equal(labels["model"], model))
            status = labels.filter(rows)["status"]
            present = pc.sum(pc.equal(status, "ok")).as_py() or 0
            failed = pc.sum(pc.equal(status, "judge_failed")).as_py() or 0
            n = tables.prompts.num_rows
            yield Coverage(model, metric, n, present, n - present - failed, failed)


def _truncated(responses: pa.Table, model: str) -> float | None:
    reasons = responses.filter(pc.equal(responses["model"], model))["finish_reason"].drop_null()
    return pc.mean(pc.equal(reasons, "length")).as_py() if len(reasons) else None
