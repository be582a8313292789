"""Export schema ``tables``: one row per prompt and model, with a score and its status for every metric."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rbx.grid.manifest import Manifest
from rbx.grid.schema import LABELS, PROMPTS, RESPONSES
from rbx.grid.tables import Tables, rows_by_cell

ENDING = "parquet"
# Both tables count input tokens: one the prompt's, one what the server saw.
RENAMED = {"input_tokens": "server_input_tokens", "status": "response_status"}
LABEL_COLUMNS = ("score", "status", "reason", "cut")


class LongRows:
    """The rows of a grid, ready to be written a range of prompts at a time."""

    def __init__(self, manifest: Manifest, tables: Tables) -> None:
        """Find each pair's rows once."""
        ids = tables.prompts["prompt_id"]
        self._models = manifest.models
        self._prompts = tables.prompts
        self._responses = (tables.responses, rows_by_cell(tables.responses, ids, manifest.models))
        self._labels = {
            metric: (rows, rows_by_cell(rows, ids, manifest.models))
            for metric in manifest.metrics
            for rows in [tables.labels.filter(pc.equal(tables.labels["metric"], metric))]
        }

    def write(self, path: Path, prompts: NDArray[np.int64]) -> None:
        """Write the rows of these prompts, numbered as in the grid."""
        pq.write_table(self.table(prompts), path, compression="zstd")

    def table(self, prompts: NDArray[np.int64]) -> pa.Table:
        """The rows of these prompts, the models of a prompt together."""
        of_prompt = pa.array(np.repeat(prompts, len(self._models)))
        names = [name for name in PROMPTS.names if name != "split"]
        columns = {name: self._prompts[name].take(of_prompt) for name in names}
        columns["model"] = pa.array(list(self._models) * len(prompts), pa.string())
        own = [name for name in RESPONSES.names if name not in ("prompt_id", "model")]
        taken = _taken(*self._responses, prompts, own)
        columns |= {RENAMED.get(name, name): taken[name] for name in own}
        for metric, (rows, row_of) in self._labels.items():
            taken = _taken(rows, row_of, prompts, LABEL_COLUMNS)
            columns |= {f"{name}_{metric}": taken[name] for name in LABEL_COLUMNS}
        return pa.table(columns)

    def text(self) -> str:
        """What a reader of the card needs to know of the columns."""
        metrics = ", ".join(f"`score_{metric}`" for metric in self._labels)
        return (
            "One row per prompt and model: the prompt, the model's answer (`response`, `output_tokens`,\n"
            f"`finish_reason`, `response_status`) and its scores: {metrics}, each null where it is\n"
            "missing, with `status_…` (ok, missing, judge_failed), `reason_…` and `cut_…`, the texts that\n"
            "the judge saw only the beginning of. Raw replies of judges are left out.\n"
        )


def _taken(
    rows: pa.Table, row_of: NDArray[np.int64], prompts: NDArray[np.int64], names: Sequence[str]
) -> pa.Table:
    """Rows of these prompts; a pair without one is null with status ``missing``."""
    at = row_of[prompts].ravel()
    taken = rows.select(list(names)).take(pa.array(at, mask=at < 0))
    column = taken.column_names.index("status")
    return taken.set_column(column, LABELS.field("status"), pc.fill_null(taken["status"], "missing"))
