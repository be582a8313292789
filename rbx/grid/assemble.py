"""From a harvest to a grid: identities, duplicates, split, and a row for every (prompt, model)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rbx.errors import DatasetError
from rbx.grid.duplicates import count_disagreeing
from rbx.grid.harvest import Harvest
from rbx.grid.judges import mixed_judges
from rbx.grid.manifest import quality_metric
from rbx.grid.order import natural_order
from rbx.grid.schema import LABELS, PROMPTS, RESPONSES
from rbx.grid.split import is_train, prompt_id

DROPPED = -1  # the position of a prompt whose text an earlier prompt has


@dataclass(frozen=True)
class Grid:
    """The three tables, in prompt-major order with models (and metrics) in natural order."""

    prompts: pa.Table
    responses: pa.Table
    labels: pa.Table
    models: tuple[str, ...]
    metrics: tuple[str, ...]
    quality: str  # which of the metrics stands for quality
    duplicate_prompts: int
    disagreeing_duplicates: int


class _Identified(NamedTuple):
    """Distinct prompts; each key's row among them or ``DROPPED``; dropped keys and the row that stays."""

    prompts: pa.Table
    position_of_key: dict[str, int]
    twin_of_key: dict[str, int]


def assemble(harvest: Harvest, name: str, quality: str | None = None) -> Grid:
    """Make the grid of a harvest.

    Prompts of equal text are one prompt: the first stays, the others and their answers go and are
    counted, as are those among them that were scored otherwise. Pairs without an answer get
    rows with null and status ``missing``. ``quality`` names the metric that stands for quality, see
    ``quality_metric``. Raises ``DatasetError`` for an empty harvest, a key given twice, rows of unknown
    prompts, and a metric that two judges scored.
    """
    if harvest.prompts.num_rows == 0:
        raise DatasetError(f"{name}: the source holds no prompt")
    if harvest.responses.num_rows == 0:
        raise DatasetError(f"{name}: the source holds no answer of any model")
    if harvest.labels.num_rows == 0:
        raise DatasetError(f"{name}: the source holds no label")
    prompts, position_of_key, twin_of_key = _identify(harvest.prompts, name)
    models = natural_order(pc.unique(harvest.responses["model"]).to_pylist())
    unanswered = sorted(set(pc.unique(harvest.labels["model"]).to_pylist()) - set(models))
    if unanswered:
        raise DatasetError(f"{name}: labels of {unanswered[0]!r}, which has no response rows")
    metrics = natural_order(pc.unique(harvest.labels["metric"]).to_pylist())
    ids = prompts["prompt_id"]
    responses = dense_rows(harvest.responses, position_of_key, ids, {"model": models}, RESPONSES, name)
    both = {"model": models, "metric": metrics}
    labels = dense_rows(harvest.labels, position_of_key, ids, both, LABELS, name)
    for mixed in mixed_judges(labels):
        raise DatasetError(f"{name}: {mixed}")
    try:
        quality = quality_metric(metrics, quality)
    except ValueError as error:
        raise DatasetError(f"{name}: {error}") from None
    return Grid(
        prompts=prompts,
        responses=responses,
        labels=labels,
        models=tuple(models),
        metrics=tuple(metrics),
        quality=quality,
        duplicate_prompts=len(twin_of_key),
        disagreeing_duplicates=count_disagreeing(harvest.labels, twin_of_key, labels, models, metrics),
    )


def _identify(harvested: pa.Table, name: str) -> _Identified:
    keys, texts = harvested["key"].to_pylist(), harvested["prompt"].to_pylist()
    position_of_key: dict[str, int] = {}
    twin_of_key: dict[str, int] = {}
    kept: dict[str, int] = {}
    position_of_row: dict[int, int] = {}
    for row, (key, text) in enumerate(zip(keys, texts, strict=True)):
        if key in position_of_key:
            raise DatasetError(f"{name}: prompt key {key!r} is given twice (prompt {row + 1})")
        first = kept.setdefault(prompt_id(text), row)
        if texts[first] != text:
            raise DatasetError(f"{name}: prompts {first + 1} and {row + 1} differ but have the same hash")
        if first == row:
            position_of_row[row] = position_of_key[key] = len(kept) - 1
        else:
            position_of_key[key], twin_of_key[key] = DROPPED, position_of_row[first]
    table = harvested.take(pa.array(kept.values(), pa.int64()))
    splits = [
        "train" if is_train(own or identity) else "test"
        for own, identity in zip(table["split_id"].to_pylist(), kept, strict=True)
    ]
    columns = {"prompt_id": pa.array(kept, pa.string()), "split": pa.array(splits, pa.string())}
    arrays = [columns[kind.name] if kind.name in columns else table[kind.name] for kind in PROMPTS]
    return _Identified(pa.Table.from_arrays(arrays, schema=PROMPTS), position_of_key, twin_of_key)


def dense_rows(
    rows: pa.Table,
    position_of_key: dict[str, int],
    ids: pa.ChunkedArray,
    axes: dict[str, list[str]],
    schema: pa.Schema,
    name: str,
) -> pa.Table:
    """One row per cell of prompts × ``axes``, those without a source row filled in as missing.

    ``rows`` are keyed by ``key``, ``position_of_key`` says which of ``ids`` that is. Raises ``DatasetError``
    for a key that is none of them, and for two rows of one cell.
    """
    position = _positions(rows, position_of_key, name)
    rows, cell = rows.filter(pa.array(position != DROPPED)), position[position != DROPPED]
    for column, axis in axes.items():
        cell = cell * len(axis) + pc.index_in(rows[column], value_set=pa.array(axis, pa.string())).to_numpy()
    shape = (len(ids), *map(len, axes.values()))
    row_of_cell = _rows_of_cells(cell, int(np.prod(shape)), rows, name)
    taken = rows.take(pa.array(row_of_cell, mask=row_of_cell < 0))
    at = np.unravel_index(np.arange(len(row_of_cell)), shape)
    filled = {"prompt_id": pc.take(ids, pa.array(at[0]))}
    for (column, axis), where in zip(axes.items(), at[1:], strict=True):
        filled[column] = pc.take(pa.array(axis, pa.string()), pa.array(where))
    for kind in schema:
        if kind.name in filled:
            continue
        filled[kind.name] = taken[kind.name]
        if not kind.nullable:
            filled[kind.name] = pc.fill_null(taken[kind.name], "missing" if kind.name == "status" else "")
    return pa.Table.from_arrays([filled[kind.name] for kind in schema], schema=schema)


def _positions(rows: pa.Table, position_of_key: dict[str, int], name: str) -> NDArray[np.int64]:
    found = pc.index_in(rows["key"], value_set=pa.array(position_of_key, pa.string()))
    if found.null_count:
        row = int(np.flatnonzero(found.is_null().to_numpy())[0])
        raise DatasetError(f"{name}: an answer to prompt {rows['key'][row].as_py()!r}, which does not exist")
    positions = np.fromiter(position_of_key.values(), np.int64, len(position_of_key))
    taken: NDArray[np.int64] = positions[found.to_numpy()]
    return taken


def _rows_of_cells(cell: NDArray[np.int64], n_cells: int, rows: pa.Table, name: str) -> NDArray[np.int64]:
    """Row number per cell, −1 where none; raises ``DatasetError`` where two rows claim one cell."""
    row_of_cell = np.full(n_cells, -1, dtype=np.int64)
    row_of_cell[cell] = np.arange(len(cell))
    again = np.flatnonzero(row_of_cell[cell] != np.arange(len(cell)))
    if len(again):
        row = int(again[0])
        key, model = rows["key"][row].as_py(), rows["model"][row].as_py()
        raise DatasetError(
            f"{name}: the answer of {model!r} to prompt {key!r} is given twice; keep one of them"
        )
    return row_of_cell
