"""From the tables on disk to dense arrays, with every row accounted for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rbx.errors import DatasetError
from rbx.grid.manifest import Manifest
from rbx.grid.rules import Finding, label_faults, prompt_faults, response_faults
from rbx.grid.schema import GridView


def dense_view(
    path: Path, manifest: Manifest, prompts: pa.Table, responses: pa.Table, labels: pa.Table, metric: str
) -> GridView:
    """One metric as (P, M) arrays; raises ``DatasetError`` for the first row that breaks a rule."""
    if metric not in manifest.metrics:
        raise DatasetError(f"{path}: no metric {metric!r}; the grid has {', '.join(manifest.metrics)}")
    for finding in _faults(manifest, prompts, responses, labels):
        raise DatasetError(f"{path / finding.file}{finding.place}: {finding.what}")
    chosen = labels.filter(pc.equal(labels["metric"], metric))
    models = pa.array(manifest.models, pa.string())
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
        output_tokens=_dense(responses, "output_tokens", prompts["prompt_id"], models),
        score=_dense(chosen, "score", prompts["prompt_id"], models),
    )


def _faults(manifest: Manifest, prompts: pa.Table, responses: pa.Table, labels: pa.Table) -> list[Finding]:
    ids = prompts["prompt_id"]
    return [
        *prompt_faults(prompts),
        *response_faults(responses, ids, manifest.models),
        *label_faults(labels, ids, manifest.models, manifest.metrics),
    ]


def _dense(rows: pa.Table, column: str, ids: pa.ChunkedArray, models: pa.Array) -> NDArray[np.float64]:
    values = np.full(len(ids) * len(models), np.nan)
    prompt = pc.index_in(rows["prompt_id"], value_set=ids.combine_chunks()).to_numpy()
    model = pc.index_in(rows["model"], value_set=models).to_numpy()
    cells = prompt.astype(np.int64) * len(models) + model
    values[cells] = pc.cast(rows[column], pa.float64()).fill_null(np.nan).to_numpy()
    return values.reshape(len(ids), len(models))
