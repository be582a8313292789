"""``rbx dataset check``: every fault and every remarkable share of a grid, not only the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rbx.grid.census import Census, take_census
from rbx.grid.limits import skew_sentences
from rbx.grid.manifest import Manifest
from rbx.grid.rules import Finding, grid_faults
from rbx.grid.store import read_tables
from rbx.grid.tables import Tables, counts_of

SHOWN_MODELS = 8
TOKENS_REMEDY = {
    "table": "Count them with the model's tokenizer and name the column as source.columns.input_tokens",
    "label": "Give a tokenizer.json as source.prompts.tokenizer",
}


@dataclass(frozen=True)
class Inspection:
    """Faults fail the check; warnings and the census inform."""

    name: str
    digest: str
    synthetic: bool
    quality: str  # the metric that stands for quality
    faults: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    census: Census

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"ok": not self.faults, **asdict(self)}


def inspect_grid(folder: Path) -> Inspection:
    """Check a grid directory; raises ``DatasetError`` only where its files can't be read or were altered."""
    manifest, tables = read_tables(folder)
    faults = tuple(_faults(manifest, tables))
    census = take_census(tables, manifest.models, manifest.metrics)
    return Inspection(
        name=manifest.name,
        digest=manifest.digest,
        synthetic=manifest.synthetic,
        quality=manifest.quality,
        faults=faults,
        warnings=tuple(_warnings(manifest, tables, census)),
        census=census,
    )


def _faults(manifest: Manifest, tables: Tables) -> Iterator[Finding]:
    yield from grid_faults(tables, manifest.models, manifest.metrics)
    dropped = manifest.counts
    found = counts_of(tables, dropped.duplicate_prompts, dropped.disagreeing_duplicates)
    if found != manifest.counts:
        what = f"counts {manifest.counts!r}, the tables hold {found!r}"
        yield Finding("counts", "manifest.json", None, "counts", 1, what)
    if manifest.counts.labels_present == 0:
        yield Finding("empty", "labels.parquet", None, "score", manifest.counts.labels, "no label is present")
    elif not pc.any(pc.is_valid(tables.labels.filter(_of(tables, manifest.quality))["score"])).as_py():
        what = f"no label of {manifest.quality}, which stands for quality, is present; see why below"
        yield Finding("empty", "labels.parquet", None, "score", tables.prompts.num_rows, what)


def _of(tables: Tables, metric: str) -> pa.ChunkedArray:
    return pc.equal(tables.labels["metric"], metric)


def _warnings(manifest: Manifest, tables: Tables, census: Census) -> Iterator[Finding]:
    yield from _near_duplicates(tables.prompts)
    for split in ("train", "test"):
        if split not in pc.unique(tables.prompts["split"]).to_pylist():
            yield Finding("split", "prompts.parquet", None, "split", 0, f"no {split} prompt")
    if failed := sum(each.error for each in census.answers):
        which = ", ".join(f"{each.model} {each.error:,}" for each in census.answers if each.error)
        what = f"{failed:,} answers could not be had: {which}"
        yield Finding("error", "responses.parquet", None, "status", failed, what)
    yield from _missing(tables)
    for sentence in skew_sentences(census):
        yield Finding("skew", "labels.parquet", None, None, 0, sentence)
    if manifest.input_tokens_estimated and not manifest.synthetic:
        remedy = TOKENS_REMEDY.get(manifest.spec.get("source", {}).get("kind"), "Count them with a tokenizer")
        what = f"{manifest.input_tokens_origin}; costs and prompt times rest on it. {remedy}"
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
