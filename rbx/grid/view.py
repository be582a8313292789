"""From the tables on disk to dense arrays, with every row accounted for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rbx.errors import DatasetError
from rbx.grid.manifest import Manifest
from rbx.grid.rules import grid_faults
from rbx.grid.schema import GridView
from rbx.grid.tables import Tables, rows_by_cell


def dense_view(path: Path, manifest: Manifest, tables: Tables, metric: str) -> GridView:
    """One metric as (P, M) arrays; raises ``DatasetError`` for the first row that breaks a rule."""
    if metric not in manifest.metrics:
        raise DatasetError(f"{path}: no metric {metric!r}; the grid has {', '.join(manifest.metrics)}")
    refuse_faults(path, manifest, tables)
    prompts, labels = tables.prompts, tables.labels
    chosen = labels.filter(pc.equal(labels["metric"], metric))
    return GridView(
        name=manifest.name,
        digest=manifest.digest,
        synthetic=manifest.synthetic,
        metric=metric,
        models=manifest.models,
        prompt_ids=tuple(prompts["prompt_id"].to_pylist()),
        prompts=tuple(prompts["prompt"].to_pylist()),
        sources=tuple(prompts["source"].to_pylist()),
        is_harmful=prompts["is_harmful"].to_numpy().astype(np.bool_),
        is_train=pc.equal(prompts["split"], "train").to_numpy().astype(np.bool_),
        input_tokens=prompts["input_tokens"].to_numpy().astype(np.int64),
        output_tokens=_dense(tables.responses, "output_tokens", prompts["prompt_id"], manifest.models),
        score=_dense(chosen, "score", prompts["prompt_id"], manifest.models),
    )


def refuse_faults(path: Path, manifest: Manifest, tables: Tables) -> None:
    """Raise ``DatasetError`` for the first row that breaks a rule."""
    for finding in grid_faults(tables, manifest.models, manifest.metrics):
        raise DatasetError(f"{path / finding.file}{finding.place}: {finding.what}")


def _dense(rows: pa.Table, column: str, ids: pa.ChunkedArray, models: tuple[str, ...]) -> NDArray[np.float64]:
    values = pc.cast(rows[column], pa.float64()).fill_null(np.nan).to_numpy()
    return np.append(values, np.nan)[rows_by_cell(rows, ids, models)]
