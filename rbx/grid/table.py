"""Source ``table``: anybody's CSV, JSON lines or Parquet file, by a map of its columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rbx.config.base import StrictModel, digest
from rbx.errors import ConfigError, DatasetError
from rbx.grid.files import read_rows, sha256_of
from rbx.grid.harvest import Harvest, LabelRow, PromptRow, ResponseRow, Say, harvest_rows
from rbx.grid.spec import LongColumns, LongTableSource, ModelColumns, WideColumns, WideTableSource
from rbx.grid.split import prompt_id
from rbx.grid.values import Row

CHARACTERS_PER_TOKEN = 4
FINISH_REASONS = ("stop", "length")


def estimated_tokens(prompt: str) -> int:
    """Characters / 4, rounded up: for prompts whose file has no token counts."""
    return -(-len(prompt) // CHARACTERS_PER_TOKEN)


@dataclass
class _Collected:
    """Rows so far; ``first_row`` and ``pairs`` catch ids and answers that are given twice."""

    spec: LongTableSource | WideTableSource
    judge_digest: str
    prompts: dict[str, PromptRow] = field(default_factory=dict)
    first_row: dict[str, int] = field(default_factory=dict)
    pairs: set[tuple[str, str]] = field(default_factory=set)
    responses: list[ResponseRow] = field(default_factory=list)
    labels: list[LabelRow] = field(default_factory=list)
    estimated: int = 0  # prompts without a token count

    def prompt(self, row: Row, columns: LongColumns | WideColumns) -> str:
        """Note the prompt of a row; returns its key."""
        text = row.text(columns.prompt)
        key = row.text(columns.id) if columns.id else prompt_id(text)
        known = self.prompts.get(key)
        if known is None:
            counted = row.optional_count(columns.input_tokens) if columns.input_tokens else None
            self.estimated += counted is None
            tokens = estimated_tokens(text) if counted is None else counted
            self.prompts[key] = _prompt_row(row, columns, key, text, tokens)
            self.first_row[key] = row.number
        elif known.prompt != text:
            where = f"row {self.first_row[key]}"
            raise row.fault(columns.id or columns.prompt, f"{key!r} has another prompt in {where}")
        return key

    def answer(self, row: Row, key: str, model: str, columns: LongColumns | ModelColumns) -> None:
        """Note one model's answer and score, unless all its cells are empty."""
        answer_columns = (columns.score, columns.response, columns.output_tokens)
        if all(row.values.get(column) is None for column in answer_columns if column):
            return
        if (key, model) in self.pairs:
            raise row.fault(columns.score, f"a second answer of {model!r} to the same prompt; keep one")
        self.pairs.add((key, model))
        scale = self.spec.score_range
        score = row.optional_score(columns.score, scale.low, scale.high)
        status = "missing" if score is None else "ok"
        self.responses.append(_response_row(row, key, model, columns))
        self.labels.append(LabelRow(key, model, self.spec.metric, score, status, None, self.judge_digest))


def read_table(spec: LongTableSource | WideTableSource, say: Say) -> Harvest:
    """Read the file; raises ``ConfigError`` without a path, ``DatasetError`` naming file, row, column.

    A mapped column that no row has is an error; an empty cell is a missing value.
    """
    if spec.path is None:
        raise ConfigError("source.path is not set: give the file with --set source.path=FILE")
    judge = digest(["table", spec.metric, spec.score_range.low, spec.score_range.high])
    collected, columns = _Collected(spec, judge), set[str]()
    say(f"reading {spec.path.name}")
    for row in read_rows(spec.path):
        columns.update(row.values)
        _collect(collected, row, spec)
    of_models = spec.models.values() if isinstance(spec, WideTableSource) else ()
    refuse_absent_columns(spec.path, [spec.columns, *of_models], columns)
    provenance: dict[str, Any] = {
        "files": {spec.path.name: sha256_of(spec.path)},
        "input_tokens": _tokens_origin(collected, spec.columns.input_tokens),
    }
    prompts = list(collected.prompts.values())
    return harvest_rows(prompts, collected.responses, collected.labels, provenance)


def _tokens_origin(collected: _Collected, column: str | None) -> str:
    estimate = f"estimated: characters / {CHARACTERS_PER_TOKEN}"
    if column is None:
        return estimate
    if collected.estimated:
        where = f"{collected.estimated:,} of {len(collected.prompts):,} prompts"
        return f"{estimate} for {where}, the others from column {column}"
    return f"column {column}"


def _collect(collected: _Collected, row: Row, spec: LongTableSource | WideTableSource) -> None:
    key = collected.prompt(row, spec.columns)
    if isinstance(spec, LongTableSource):
        collected.answer(row, key, row.text(spec.columns.model), spec.columns)
        return
    if collected.first_row[key] != row.number:
        raise row.fault(spec.columns.prompt, f"the same prompt as row {collected.first_row[key]}; keep one")
    for model, columns in spec.models.items():
        collected.answer(row, key, model, columns)


def refuse_absent_columns(path: Path, mapped: Iterable[StrictModel], found: set[str]) -> None:
    """Raises ``DatasetError`` where a column map names a column that no row of a file has."""
    absent = {name for each in mapped for name in each.model_dump().values() if name} - found
    if found and absent:
        raise DatasetError(
            f"{path}: no column {', '.join(map(repr, sorted(absent)))}; it has {', '.join(sorted(found))}"
        )


def _prompt_row(
    row: Row, columns: LongColumns | WideColumns, key: str, text: str, input_tokens: int
) -> PromptRow:
    return PromptRow(
        key=key,
        prompt=text,
        source=(row.optional_text(columns.source) if columns.source else None) or row.path.name,
        reference=row.optional_text(columns.reference) if columns.reference else None,
        is_harmful=row.flag(columns.is_harmful) if columns.is_harmful else False,
        input_tokens=input_tokens,
        source_id=key if columns.id else None,
    )


def _response_row(row: Row, key: str, model: str, columns: LongColumns | ModelColumns) -> ResponseRow:
    text = row.optional_text(columns.response) if columns.response else None
    finish = row.optional_text(columns.finish_reason) if columns.finish_reason else None
    if columns.finish_reason and finish not in (*FINISH_REASONS, None):
        raise row.fault(columns.finish_reason, f"{finish!r} is none of {', '.join(FINISH_REASONS)}")
    tokens = row.optional_count(columns.output_tokens) if columns.output_tokens else None
    return ResponseRow(
        key, model, text, tokens, finish, digest(["table", model]), "empty" if text == "" else "ok"
    )
