"""A grid counted: what became of every answer and every label, by model, metric, source and length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rbx.grid.decile import LengthCoverage, coverage_by_length
from rbx.grid.judges import JUDGED, judges_of
from rbx.grid.tables import Tables, rows_by_cell

MOST_REASONS = 5
MOST_CHARACTERS = 160
UNSTATED = "no reason given"


@dataclass(frozen=True)
class Reason:
    """Why rows have no value: the first line of what was noted, and how many rows have it."""

    text: str
    count: int


@dataclass(frozen=True)
class SourceCensus:
    """Prompts of one source."""

    source: str
    train: int
    test: int
    harmful: int


@dataclass(frozen=True)
class AnswerCensus:
    """Answers of one model by status; ``truncated`` were cut at the token limit.

    ``usage``, ``recounted`` and ``unstated`` say where the answers' lengths come from, ``no_length`` how
    many of all rows have none. ``truncated_share`` is None where no finish reason is known. ``generations``
    counts rows by the digest of what the model was asked with.
    """

    model: str
    ok: int
    empty: int
    error: int
    missing: int
    truncated: int
    truncated_share: float | None
    usage: int
    recounted: int
    unstated: int
    no_length: int
    generations: dict[str, int]
    errors: tuple[Reason, ...]


@dataclass(frozen=True)
class Coverage:
    """Labels of one (model, metric), how the others are missing, and the commonest reasons."""

    model: str
    metric: str
    prompts: int
    present: int
    missing: int
    judge_failed: int
    why_missing: tuple[Reason, ...]
    why_failed: tuple[Reason, ...]

    @property
    def share(self) -> float:
        """Present / prompts."""
        return self.present / self.prompts if self.prompts else 0.0


@dataclass(frozen=True)
class MetricCensus:
    """Labels of one metric.

    ``judged`` labels have a score or a judge that failed; ``judges`` counts them by digest, ``cut`` by the
    text that the judge saw only the beginning of. ``values`` is the number of distinct scores.
    ``by_prompt_length`` covers prompts by input tokens; ``by_answer_length`` covers those with answers of
    known length by their mean, where a label counts as missing only if its judge failed.
    """

    metric: str
    judged: int
    judges: dict[str, int]
    cut: dict[str, int]
    values: int
    by_prompt_length: LengthCoverage
    by_answer_length: LengthCoverage


@dataclass(frozen=True)
class Census:
    """All counts of a grid; ``answered_by_length`` covers prompts by the share of answers that are ok."""

    sources: tuple[SourceCensus, ...]
    answers: tuple[AnswerCensus, ...]
    labels: tuple[Coverage, ...]
    metrics: tuple[MetricCensus, ...]
    answered_by_length: LengthCoverage


def take_census(tables: Tables, models: tuple[str, ...], metrics: tuple[str, ...]) -> Census:
    """Count a grid's rows; rows that break the grid's rules are counted as far as they can be placed."""
    ids, responses = tables.prompts["prompt_id"], tables.responses
    answer_row = rows_by_cell(responses, ids, models)
    status = _at(responses["status"].to_numpy(zero_copy_only=False), answer_row, None)
    tokens = _at(_floats(responses["output_tokens"]), answer_row, np.nan)
    length = _floats(tables.prompts["input_tokens"])
    by_metric = {name: tables.labels.filter(pc.equal(tables.labels["metric"], name)) for name in metrics}
    return Census(
        sources=tuple(_sources(tables.prompts)),
        answers=tuple(_answers(responses, model) for model in models),
        labels=tuple(
            _coverage(rows, rows_by_cell(rows, ids, models)[:, at], status[:, at], model, metric)
            for metric, rows in by_metric.items()
            for at, model in enumerate(models)
        ),
        metrics=tuple(
            _metric(metric, rows, rows_by_cell(rows, ids, models), length, tokens)
            for metric, rows in by_metric.items()
        ),
        answered_by_length=coverage_by_length(length, (status == "ok").mean(axis=1)),
    )


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    values: NDArray[np.float64] = pc.cast(column, pa.float64()).fill_null(np.nan).to_numpy()
    return values


def _at(values: NDArray[Any], rows: NDArray[np.int64], absent: object) -> NDArray[Any]:
    """``values[rows]``, ``absent`` where the row is −1."""
    return np.append(values, np.array([absent], dtype=values.dtype))[rows]


def _sources(prompts: pa.Table) -> Iterator[SourceCensus]:
    columns = [prompts[name].to_pylist() for name in ("source", "split", "is_harmful")]
    counts = Counter[str]()
    harmful = Counter[str]()
    train = Counter[str]()
    for source, split, harm in zip(*columns, strict=True):
        counts[source] += 1
        train[source] += split == "train"
        harmful[source] += bool(harm)
    for source, n in sorted(counts.items(), key=lambda each: (-each[1], each[0])):
        yield SourceCensus(source, train[source], n - train[source], harmful[source])


def _answers(responses: pa.Table, model: str) -> AnswerCensus:
    rows = responses.filter(pc.equal(responses["model"], model))
    status = Counter(rows["status"].to_pylist())
    origin = Counter(rows["tokens_source"].filter(pc.is_valid(rows["output_tokens"])).to_pylist())
    finish = Counter(rows["finish_reason"].drop_null().to_pylist())
    failed = rows.filter(pc.equal(rows["status"], "error"))
    return AnswerCensus(
        model=model,
        ok=status["ok"],
        empty=status["empty"],
        error=status["error"],
        missing=status["missing"],
        truncated=finish["length"],
        truncated_share=finish["length"] / finish.total() if finish else None,
        usage=origin["usage"],
        recounted=origin["recount"],
        unstated=origin[None],
        no_length=rows["output_tokens"].null_count,
        generations=dict(sorted(Counter(rows["generation_digest"].to_pylist()).items())),
        errors=_reasons(failed["error"].to_pylist()),
    )


def _coverage(
    labels: pa.Table, rows: NDArray[np.int64], answered: NDArray[Any], model: str, metric: str
) -> Coverage:
    """``rows`` (P,) are those of one model among ``labels``, ``answered`` (P,) the status of its answers."""
    there = rows >= 0
    taken = labels.take(rows[there])
    status, reason = taken["status"].to_pylist(), taken["reason"].to_pylist()
    answers = answered[there].tolist()
    missing = [
        why or (UNSTATED if answer in ("ok", None) else f"the answer is {answer}")
        for state, why, answer in zip(status, reason, answers, strict=True)
        if state not in JUDGED
    ]
    failed = [why for state, why in zip(status, reason, strict=True) if state == "judge_failed"]
    present = status.count("ok")
    return Coverage(
        model=model,
        metric=metric,
        prompts=len(rows),
        present=present,
        missing=len(rows) - present - len(failed),
        judge_failed=len(failed),
        why_missing=_reasons([*missing, *["no row"] * int((~there).sum())]),
        why_failed=_reasons(failed),
    )


def _metric(
    metric: str,
    labels: pa.Table,
    rows: NDArray[np.int64],
    length: NDArray[np.float64],
    tokens: NDArray[np.float64],
) -> MetricCensus:
    """``rows`` (P, M) are those among ``labels``; ``length`` (P,) of prompts, ``tokens`` (P, M) of
    answers.
    """
    judges = judges_of(labels).get(metric)
    status = _at(labels["status"].to_numpy(zero_copy_only=False), rows, None)
    present, judged = status == "ok", np.isin(status.astype(str), JUDGED)
    placed = judged & np.isfinite(tokens)
    some = placed.any(axis=1)
    n = placed[some].sum(axis=1)
    return MetricCensus(
        metric=metric,
        judged=judges.judged if judges else 0,
        judges=judges.labels_by_digest if judges else {},
        cut=_cut(labels),
        values=len(pc.unique(labels["score"].drop_null())),
        by_prompt_length=coverage_by_length(length, present.mean(axis=1)),
        by_answer_length=coverage_by_length(
            np.where(placed, tokens, 0.0)[some].sum(axis=1) / n, (present & placed)[some].sum(axis=1) / n
        ),
    )


def _cut(labels: pa.Table) -> dict[str, int]:
    """Labels by the text that the judge saw only the beginning of."""
    counts = Counter[str]()
    for names in labels["cut"].drop_null().to_pylist():
        counts.update({name.strip() for name in names.split(",")} - {""})
    return dict(sorted(counts.items()))


def _reasons(texts: Iterable[str | None]) -> tuple[Reason, ...]:
    counts = Counter(_first_line(text) for text in texts)
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return tuple(Reason(*each) for each in ordered[:MOST_REASONS])


def _first_line(text: str | None) -> str:
    line = (text or "").strip().splitlines()
    if not line:
        return UNSTATED
    return line[0] if len(line[0]) <= MOST_CHARACTERS else f"{line[0][: MOST_CHARACTERS - 1]}…"
