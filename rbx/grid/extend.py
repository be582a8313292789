"""A grid with further metrics: the same prompts and answers, scored by more signals."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from rbx.errors import DatasetError
from rbx.grid.assemble import Grid, dense_rows
from rbx.grid.harvest import HARVEST_LABELS
from rbx.grid.judges import mixed_judges
from rbx.grid.manifest import Manifest
from rbx.grid.order import natural_order
from rbx.grid.schema import LABELS
from rbx.grid.tables import Tables


def with_labels(manifest: Manifest, tables: Tables, further: pa.Table, quality: str) -> Grid:
    """Add labels, a table of ``HARVEST_LABELS`` keyed by prompt id; pairs without one are missing.

    ``quality`` is the metric that stands for quality. Raises ``DatasetError`` for a metric that the grid
    has already, and for labels of unknown prompts or by two judges.
    """
    new = natural_order(pc.unique(further["metric"]).to_pylist())
    if again := [metric for metric in new if metric in manifest.metrics]:
        raise DatasetError(
            f"{manifest.name}: has a metric {again[0]!r} already; give the signal another name, or take the "
            "grid without it"
        )
    rows = pa.concat_tables(
        [tables.labels.rename_columns(HARVEST_LABELS.names).cast(HARVEST_LABELS), further]
    )
    ids = tables.prompts["prompt_id"]
    positions = {prompt_id: at for at, prompt_id in enumerate(ids.to_pylist())}
    metrics = natural_order([*manifest.metrics, *new])
    axes = {"model": list(manifest.models), "metric": metrics}
    labels = dense_rows(rows, positions, ids, axes, LABELS, manifest.name)
    for mixed in mixed_judges(labels):
        raise DatasetError(f"{manifest.name}: {mixed}")
    return Grid(
        prompts=tables.prompts,
        responses=tables.responses,
        labels=labels,
        models=manifest.models,
        metrics=tuple(metrics),
        quality=quality,
        duplicate_prompts=manifest.counts.duplicate_prompts,
        disagreeing_duplicates=manifest.counts.disagreeing_duplicates,
    )
