"""``rbx dataset check``: every fault and every remarkable share of a grid, not only the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rbx.grid.manifest import Manifest
from rbx.grid.rules import Finding, label_faults, prompt_faults, response_faults
from rbx.grid.store import Tables, counts_of, read_tables

SHOWN_MODELS = 8
TOKENS_REMEDY = "Count them with the model's tokenizer and name the column as source.columns.input_tokens"


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
    dropped = manifest.counts
    found = counts_of(tables, dropped.duplicate_prompts, dropped.disagreeing_duplicates)
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
    yield from _missing(tables)
    if manifest.input_tokens_estimated and not manifest.synthetic:
        what = f"{manifest.input_tokens_origin}; costs and prompt times rest on it. {TOKENS_REMEDY}"
        yield Finding("estimate", "prompts.parquet", None, "input_tokens", tables.prompts.num_rows, what)
    if disagreeing := manifest.counts.disagreeing_duplicates:
        what = (
            f"of {manifest.counts.duplicate_prompts:,} dropped prompts of equal text, {disagreeing:,} were "
            "scored otherwise than the one that stays; average them in the source if the first is not wanted"
        )
        yield Finding("duplicate", "manifest.json", None, None, disagreeing, what)


def _missing(tables: Tables) -> Iterator[Finding]:
    """Labels and lengths that are not there, by model."""
    labels, responses = tables.labels, tables.responses
    if unlabelled := labels["score"].null_count:
        which = _by_model(labels, "score")
        what = f"{unlabelled:,} of {labels.num_rows:,} labels are missing: {which}"
        yield Finding("coverage", "labels.parquet", None, "score", unlabelled, what)
    if unknown := responses["output_tokens"].null_count:
        which = _by_model(responses, "output_tokens")
        share = f"{unknown:,} of {responses.num_rows:,} answers have no length"
        what = f"{share}: {which}; a sweep leaves their prompts out"
        yield Finding("coverage", "responses.parquet", None, "output_tokens", unknown, what)


def _by_model(table: pa.Table, column: str) -> str:
    """``big 200 of 293, small 32 of 293``: the models (and metrics) with a null, the worst first."""
    axes = [name for name in ("model", "metric") if name in table.column_names]
    if len(pc.unique(table[axes[-1]])) == 1:
        axes = ["model"]
    nulls, rows = Counter[str](), Counter[str]()
    for *names, value in zip(*(table[name].to_pylist() for name in (*axes, column)), strict=True):
        rows[" on ".join(names)] += 1
        nulls[" on ".join(names)] += value is None
    worst = sorted(((n, name) for name, n in nulls.items() if n), key=lambda each: (-each[0], each[1]))
    shown = ", ".join(f"{name} {n:,} of {rows[name]:,}" for n, name in worst[:SHOWN_MODELS])
    return shown + (f" and {len(worst) - SHOWN_MODELS:,} more" if len(worst) > SHOWN_MODELS else "")


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
