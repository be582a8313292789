"""The scores that the sweep's cells were judged by, as a dense table: for the reference lines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rbx.errors import StoreError

_COLUMNS = ("prompt_id", "model", "score", "output_tokens", "input_tokens")


@dataclass(frozen=True)
class Labels:
    """``score`` of shape (P, M), NaN where a model has no score on a prompt; prompts of the sweep."""

    models: tuple[str, ...]
    score: NDArray[np.float64]


def read_labels(path: Path, prompt_ids: tuple[str, ...]) -> Labels:
    """Scores of the given prompts; raises ``StoreError`` naming the file and what is wrong in it."""
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise StoreError(f"{path}: no such file; run the same rbx sweep command again") from None
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{path}: can't be read: {error}") from None
    absent = [name for name in _COLUMNS if name not in table.column_names]
    if absent:
        raise StoreError(f"{path}: no column {', '.join(absent)}")
    prompt, model = table["prompt_id"].to_pylist(), table["model"].to_pylist()
    value = np.asarray(table["score"].cast(pa.float64()).to_numpy(), dtype=np.float64)
    models = tuple(dict.fromkeys(model))
    row = {prompt_id: index for index, prompt_id in enumerate(prompt_ids)}
    column = {name: index for index, name in enumerate(models)}
    score = np.full((len(prompt_ids), len(models)), np.nan)
    seen = np.zeros(score.shape, dtype=np.bool_)
    for line, (each, name) in enumerate(zip(prompt, model, strict=True)):
        if each not in row:
            continue
        at = row[each], column[name]
        if seen[at]:
            raise StoreError(f"{path}: row {line}: prompt {each!r} and model {name!r} stand twice")
        seen[at] = True
        score[at] = value[line]
    if np.isinf(score).any() or (score < 0).any() or (score > 1).any():
        raise StoreError(f"{path}: column score holds a value outside [0, 1]")
    return Labels(models, score)
