"""The prompts a sweep draws from: labels to score by and predictions to decide by.

Kept in the sweep's directory (``labels.parquet``, ``predictions.parquet``), so that a resumed cell
and a report work on exactly what the first cell worked on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rbx.config.experiment import Workload
from rbx.durable import write_table
from rbx.errors import BundleError, DatasetError, StoreError
from rbx.grid.schema import GridView
from rbx.heads.predictions import Predictions

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_ANSWERED = "answered_tokens"
_ROUTER = "router "  # begins the name of a router's column among the predictions


@dataclass(frozen=True)
class PromptTable:
    """P prompts × M models of the pool.

    ``input_tokens`` (P,); ``output_tokens`` and ``score`` (P, M) are the truth: the engine reads the
    former, the scoring of a finished cell the latter, a policy neither. ``quality`` and
    ``length_tokens`` (P, M) are what the heads predict. ``score`` is NaN where the label is missing.
    ``router_score`` (P, M) stands by the label of each trained router, as it is set in the experiment.
    ``answered_tokens`` (P, M) are there with ``workload.cut_quality: rescore`` alone: how many tokens of
    an answer hold its final answer, the answer's length where it has none, NaN where that can't be told.
    """

    models: tuple[str, ...]
    prompt_ids: tuple[str, ...]
    input_tokens: Ints
    output_tokens: Ints
    score: Floats
    quality: Floats
    length_tokens: Floats
    router_score: Mapping[str, Floats] = field(default_factory=dict)
    answered_tokens: Floats | None = None

    def __len__(self) -> int:
        """P."""
        return len(self.prompt_ids)


@dataclass(frozen=True)
class Coverage:
    """How many prompts of the split could be used, and how many (prompt, model) labels are there."""

    split_prompts: int
    used_prompts: int
    labels_expected: int
    labels_present: int


# Drawn with a number of its own, so that every seed of every sweep has the same prompts.
_CHOICE_SEED = 17_949


def matching_rows(view: GridView, workload: Workload) -> Ints:
    """Rows of the workload's split, of its sources alone where it names some; raises ``DatasetError``."""
    rows = view.rows(workload.split)
    known = sorted(set(view.sources))
    absent = [source for source in workload.sources if source not in known]
    if absent:
        raise DatasetError(
            f"grid {view.name}: workload.sources names {', '.join(absent)}; its prompts come from "
            f"{', '.join(known)}"
        )
    if not workload.sources:
        return rows
    return rows[np.array([view.sources[row] in workload.sources for row in rows], dtype=np.bool_)]


def usable_rows(view: GridView, workload: Workload, models: tuple[str, ...]) -> Ints:
    """The workload's ``n_prompts`` of the rows with an answer of known length from every model of the pool,
    or all of them; raises ``DatasetError`` where there are too few."""
    absent = [model for model in models if model not in view.models]
    if absent:
        raise DatasetError(
            f"grid {view.name}: no answers of {', '.join(absent)}, which the pool serves; "
            f"the grid has {', '.join(view.models)}"
        )
    rows, split = matching_rows(view, workload), workload.split
    empty = rows[view.input_tokens[rows] < 1]
    if len(empty):
        raise DatasetError(
            f"grid {view.name}: prompt {view.prompt_ids[empty[0]]} has {view.input_tokens[empty[0]]} "
            f"input_tokens ({len(empty)} such prompts in the {split} split); an engine needs at least one"
        )
    columns = np.array([view.models.index(model) for model in models])
    usable: Ints = rows[np.isfinite(view.output_tokens[np.ix_(rows, columns)]).all(axis=1)]
    if len(usable) == 0:
        raise DatasetError(
            f"grid {view.name}: none of the {len(rows)} {split} prompts has an answer from every model "
            "of the pool; see `rbx dataset check`"
        )
    n = workload.n_prompts
    if n is None:
        return usable
    if n > len(usable):
        raise DatasetError(
            f"grid {view.name}: workload.n_prompts asks for {n:,} prompts, the {split} split has "
            f"{len(usable):,} with an answer from every model"
            + (", of these sources" if workload.sources else "")
        )
    return np.sort(np.random.default_rng(_CHOICE_SEED).choice(usable, n, replace=False))


def build_prompt_table(
    view: GridView, rows: Ints, models: tuple[str, ...], predictions: Predictions
) -> PromptTable:
    """Join labels and predictions of ``rows`` in the pool's model order."""
    unknown = [model for model in models if model not in predictions.models]
    if unknown:
        raise BundleError(
            f"the bundle predicts nothing for {', '.join(unknown)}; train it on this pool's grid"
        )
    truth = np.ix_(rows, np.array([view.models.index(model) for model in models]))
    columns = [predictions.models.index(model) for model in models]
    return PromptTable(
        models=models,
        prompt_ids=tuple(view.prompt_ids[row] for row in rows),
        input_tokens=view.input_tokens[rows],
        output_tokens=np.maximum(view.output_tokens[truth], 1).astype(np.int64),
        score=view.score[truth],
        quality=predictions.quality[:, columns],
        length_tokens=np.maximum(predictions.length_tokens[:, columns], 1.0),
    )


def coverage(view: GridView, workload: Workload, table: PromptTable) -> Coverage:
    """What the join kept."""
    return Coverage(
        split_prompts=workload.n_prompts or len(matching_rows(view, workload)),
        used_prompts=len(table),
        labels_expected=table.score.size,
        labels_present=int(np.isfinite(table.score).sum()),
    )


def save_prompt_table(table: PromptTable, folder: Path) -> None:
    """Write ``labels.parquet`` and ``predictions.parquet``, one row per (prompt, model)."""
    n_models = len(table.models)
    prompt_id = pa.array(np.repeat(np.array(table.prompt_ids, dtype=object), n_models), pa.string())
    model = pa.array(list(table.models) * len(table), pa.string())
    labels = {
        "prompt_id": prompt_id,
        "model": model,
        "score": pa.array(table.score.ravel(), pa.float64(), from_pandas=True),
        "output_tokens": pa.array(table.output_tokens.ravel(), pa.int32()),
        "input_tokens": pa.array(np.repeat(table.input_tokens, n_models), pa.int32()),
    }
    if table.answered_tokens is not None:
        labels[_ANSWERED] = pa.array(table.answered_tokens.ravel(), pa.float64(), from_pandas=True)
    predictions = {
        "prompt_id": prompt_id,
        "model": model,
        "quality": pa.array(table.quality.ravel(), pa.float64()),
        "length_tokens": pa.array(table.length_tokens.ravel(), pa.float64()),
        **{
            f"{_ROUTER}{label}": pa.array(scores.ravel(), pa.float64())
            for label, scores in sorted(table.router_score.items())
        },
    }
    write_table(pa.table(labels), folder / "labels.parquet")
    write_table(pa.table(predictions), folder / "predictions.parquet")


def load_prompt_table(folder: Path, models: tuple[str, ...]) -> PromptTable:
    """Read what ``save_prompt_table`` wrote; raises ``StoreError`` where it does not fit."""
    try:
        labels = pq.read_table(folder / "labels.parquet")
        predictions = pq.read_table(folder / "predictions.parquet")
    except (OSError, pa.ArrowInvalid) as error:
        raise StoreError(f"{folder}: labels or predictions can't be read: {error}") from None
    shape = (-1, len(models))
    if labels.num_rows != predictions.num_rows or labels["model"].to_pylist() != list(models) * (
        labels.num_rows // len(models)
    ):
        raise StoreError(f"{folder}: labels.parquet does not hold {', '.join(models)} for each prompt")

    def dense(table: pa.Table, column: str) -> Floats:
        values: Floats = table[column].to_numpy().astype(np.float64)
        return values.reshape(shape)

    return PromptTable(
        models=models,
        prompt_ids=tuple(labels["prompt_id"].to_pylist()[:: len(models)]),
        input_tokens=dense(labels, "input_tokens")[:, 0].astype(np.int64),
        output_tokens=dense(labels, "output_tokens").astype(np.int64),
        score=dense(labels, "score"),
        quality=dense(predictions, "quality"),
        length_tokens=dense(predictions, "length_tokens"),
        router_score={
            name.removeprefix(_ROUTER): dense(predictions, name)
            for name in predictions.column_names
            if name.startswith(_ROUTER)
        },
        answered_tokens=dense(labels, _ANSWERED) if _ANSWERED in labels.column_names else None,
    )
