"""A grid's three tables in memory, and their rows counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rbx.grid.manifest import Counts


@dataclass(frozen=True)
class Tables:
    """A grid's three tables as they lie on disk."""

    prompts: pa.Table
    responses: pa.Table
    labels: pa.Table


def counts_of(tables: Tables, duplicates: int, disagreeing: int) -> Counts:
    """Count rows; ``duplicates`` is what assembling dropped, ``disagreeing`` how many of those differed."""
    n_train = pc.sum(pc.equal(tables.prompts["split"], "train")).as_py() or 0
    return Counts(
        prompts=tables.prompts.num_rows,
        train=n_train,
        test=tables.prompts.num_rows - n_train,
        responses=tables.responses.num_rows,
        labels=tables.labels.num_rows,
        labels_present=tables.labels.num_rows - tables.labels["score"].null_count,
        duplicate_prompts=duplicates,
        disagreeing_duplicates=disagreeing,
    )


def codes(column: pa.ChunkedArray, known: pa.Array | pa.ChunkedArray | None = None) -> NDArray[np.int64]:
    """Integers by value, in the order of ``known`` or else of appearance; those not in ``known`` are −1."""
    values = pc.unique(column) if known is None else known
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    found: NDArray[np.int64] = pc.index_in(column, value_set=values).fill_null(-1).to_numpy().astype(np.int64)
    return found


def rows_by_cell(rows: pa.Table, ids: pa.ChunkedArray, models: tuple[str, ...]) -> NDArray[np.int64]:
    """Row numbers of shape (prompts, models), −1 for pairs without one; rows of no pair are left out."""
    prompt, model = codes(rows["prompt_id"], ids), codes(rows["model"], pa.array(models, pa.string()))
    known = np.flatnonzero((prompt >= 0) & (model >= 0))
    row_of = np.full((len(ids), len(models)), -1, dtype=np.int64)
    row_of[prompt[known], model[known]] = known
    return row_of
