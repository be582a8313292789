"""The scores that the sweep's cells were judged by, as a dense table: for the reference lines."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rbx.errors import StoreError
from rbx.report.columns import column_faults

_SCHEMA = pa.schema(
    [
        ("prompt_id", pa.string()),
        ("model", pa.string()),
        ("score", pa.float64()),
        ("output_tokens", pa.int32()),
        ("input_tokens", pa.int32()),
    ]
)


@dataclass(frozen=True)
class Labels:
    """``score`` of shape (P, M): in [0, 1], NaN where a model has no score on a prompt."""

    prompt_ids: tuple[str, ...]
    models: tuple[str, ...]
    score: NDArray[np.float64]

    def of(self, prompt_ids: tuple[str, ...]) -> Labels:
        """The same for some of the prompts, in the order given; raises ``KeyError`` for an unknown one."""
        row = {prompt_id: index for index, prompt_id in enumerate(self.prompt_ids)}
        return Labels(prompt_ids, self.models, self.score[[row[each] for each in prompt_ids]])


def read_labels(path: Path, models: frozenset[str], sha256: str | None) -> Labels:
    """One score for each prompt of the file and each of the pool's ``models``.

    Raises ``StoreError`` naming the file and what is wrong in it; so too where it is not the file
    of digest ``sha256``, unless that is None.
    """
    table = _read(path, sha256)
    faults = column_faults(table, _SCHEMA)
    if faults:
        raise StoreError(f"{path}: {'; '.join(faults)}")
    if not table.num_rows:
        raise StoreError(f"{path}: holds no row; run the same rbx sweep command again")
    for name in ("prompt_id", "model", "output_tokens", "input_tokens"):
        _refuse(path, table, name, pc.is_null(table[name]), "is null")
    for name in ("output_tokens", "input_tokens"):
        _refuse(path, table, name, pc.less(table[name], 0), "is negative")
    score = table["score"]
    within = pc.and_(pc.greater_equal(score, 0.0), pc.less_equal(score, 1.0))
    _refuse(path, table, "score", pc.invert(within), "is outside [0, 1]")
    known = pa.array(sorted(models))
    _refuse(path, table, "model", pc.invert(pc.is_in(table["model"], value_set=known)), "is not in the pool")
    return _dense(path, table, models)


def _read(path: Path, sha256: str | None) -> pa.Table:
    try:
        content = path.read_bytes()
        table = pq.read_table(pa.BufferReader(content))
        table.validate(full=True)
    except FileNotFoundError:
        raise StoreError(f"{path}: no such file; run the same rbx sweep command again") from None
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{path}: can't be read: {error}") from None
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise StoreError(
            f"{path}: not the file the sweep was scored by (labels_sha256 in manifest.json differs); "
            "put that file back, or sweep again with another --out"
        )
    return table


def _refuse(path: Path, table: pa.Table, name: str, wrong: pa.ChunkedArray, words: str) -> None:
    """Raise for the first row that ``wrong`` marks; a null mark is no fault."""
    row = pc.index(wrong, True).as_py()
    if row >= 0:
        raise StoreError(f"{path}: row {row}: column {name}: {table[name][row].as_py()!r} {words}")


def _dense(path: Path, table: pa.Table, pool: frozenset[str]) -> Labels:
    prompts, models = table["prompt_id"].unique(), table["model"].unique()
    at = (
        pc.index_in(table["prompt_id"], value_set=prompts).to_numpy(),
        pc.index_in(table["model"], value_set=models).to_numpy(),
    )
    names = tuple(models.to_pylist())
    absent = sorted(pool - set(names))
    if absent:
        raise StoreError(f"{path}: column model: no row of model {', '.join(map(repr, absent))}")
    shape = len(prompts), len(models)
    cell = np.ravel_multi_index(at, shape)
    _, first = np.unique(cell, return_index=True)
    if len(first) < len(cell):
        row = int(np.setdiff1d(np.arange(len(cell)), first)[0])
        prompt, model = (table[name][row].as_py() for name in ("prompt_id", "model"))
        raise StoreError(f"{path}: row {row}: prompt {prompt!r} and model {model!r} stand twice")
    seen = np.zeros(shape, dtype=np.bool_)
    seen[at] = True
    if not seen.all():
        prompt, model = np.argwhere(~seen)[0]
        row = int(np.flatnonzero(at[0] == prompt)[0])
        raise StoreError(
            f"{path}: row {row}: prompt {prompts[prompt].as_py()!r} has no row of model {names[model]!r}"
        )
    score = np.full(shape, np.nan)
    score[at] = np.asarray(table["score"].cast(pa.float64()).to_numpy(), dtype=np.float64)
    return Labels(tuple(prompts.to_pylist()), names, score)
