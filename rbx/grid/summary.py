"""``rbx dataset show``: a grid in figures, each with the number of prompts behind it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbx.errors import DatasetError
from rbx.grid.manifest import COUNTED
from rbx.grid.schema import GridView

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ModelSummary:
    """One model on the chosen prompts; ``n`` labels of ``prompts``, lengths in tokens."""

    model: str
    prompts: int
    n: int
    mean: float | None
    zeros_share: float | None
    n_lengths: int
    length_mean: float | None
    length_p50: float | None
    length_p95: float | None
    length_max: float | None


@dataclass(frozen=True)
class SourceCounts:
    """Prompts of one source."""

    train: int
    test: int
    harmful: int


@dataclass(frozen=True)
class GridSummary:
    """Figures of one split and metric.

    Reference lines use the ``n_complete`` prompts that every model has a score for: ``random`` is the
    mean over models and prompts, ``best_single`` the best model's mean, ``oracle`` the mean of each
    prompt's best score; ``same_share`` is the share of prompts on which all models score the same.
    """

    name: str
    digest: str
    synthetic: bool
    metric: str
    split: str
    prompts: int
    train: int
    test: int
    harmful: int
    sources: dict[str, SourceCounts]
    input_tokens_mean: float
    input_tokens_origin: str
    models: tuple[ModelSummary, ...]
    n_complete: int
    random: float | None
    best_single: float | None
    best_model: str | None
    oracle: float | None
    zeros_share: float | None
    same_share: float | None

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def summarise(view: GridView, split: str = "all", *, input_tokens_origin: str = COUNTED) -> GridSummary:
    """Summarise train, test or all prompts of a view; raises ``DatasetError`` where the split is empty.

    ``input_tokens_origin`` is the manifest's word on how input tokens were counted.
    """
    rows = view.rows(split)
    if len(rows) == 0:
        raise DatasetError(f"grid {view.name}: no {split} prompts")
    score, length = view.score[rows], view.output_tokens[rows]
    complete = score[np.isfinite(score).all(axis=1)]
    known = score[np.isfinite(score)]
    means = complete.mean(axis=0) if len(complete) else np.empty(0)
    best = int(means.argmax()) if len(means) else None
    return GridSummary(
        name=view.name,
        digest=view.digest,
        synthetic=view.synthetic,
        metric=view.metric,
        split=split,
        prompts=len(rows),
        train=int(view.is_train[rows].sum()),
        test=int((~view.is_train[rows]).sum()),
        harmful=int(view.is_harmful[rows].sum()),
        sources=_sources(view, rows),
        input_tokens_mean=float(view.input_tokens[rows].mean()),
        input_tokens_origin=input_tokens_origin,
        models=tuple(
            _model(name, score[:, column], length[:, column]) for column, name in enumerate(view.models)
        ),
        n_complete=len(complete),
        random=_mean(means),
        best_single=None if best is None else float(means[best]),
        best_model=None if best is None else view.models[best],
        oracle=_mean(complete.max(axis=1)) if len(complete) else None,
        zeros_share=_mean(known == 0),
        same_share=_mean(complete.max(axis=1) == complete.min(axis=1)) if len(complete) else None,
    )


def _sources(view: GridView, rows: NDArray[np.int64]) -> dict[str, SourceCounts]:
    rows_of: defaultdict[str, list[int]] = defaultdict(list)
    for row in rows.tolist():
        rows_of[view.sources[row]].append(row)
    return {
        source: SourceCounts(
            train=int(view.is_train[own].sum()),
            test=int((~view.is_train[own]).sum()),
            harmful=int(view.is_harmful[own].sum()),
        )
        for source, own in sorted(rows_of.items())
    }


def _model(name: str, score: Floats, length: Floats) -> ModelSummary:
    scores, lengths = score[np.isfinite(score)], length[np.isfinite(length)]
    p50, p95 = np.quantile(lengths, [0.5, 0.95]) if len(lengths) else (None, None)
    return ModelSummary(
        model=name,
        prompts=len(score),
        n=len(scores),
        mean=_mean(scores),
        zeros_share=_mean(scores == 0),
        n_lengths=len(lengths),
        length_mean=_mean(lengths),
        length_p50=None if p50 is None else float(p50),
        length_p95=None if p95 is None else float(p95),
        length_max=float(lengths.max()) if len(lengths) else None,
    )


def _mean(values: NDArray[Any]) -> float | None:
    return float(np.mean(values)) if len(values) else None
