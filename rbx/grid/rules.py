"""The rules that a grid's rows obey, each checked on whole columns; a breach names its first row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rbx.grid.judges import mixed_judges
from rbx.grid.schema import PROMPTS
from rbx.grid.tables import Tables, codes

Mask = NDArray[np.bool_]

SPLITS = ("train", "test")
RESPONSE_STATUS = ("ok", "empty", "error", "missing")
FINISH_REASONS = ("stop", "length")
TOKENS_SOURCES = ("usage", "recount")
LABEL_STATUS = ("ok", "missing", "judge_failed")


@dataclass(frozen=True)
class Finding:
    """A breach: the file, the first row (from 1) and column where it shows, how many rows have it."""

    rule: str
    file: str
    row: int | None
    column: str | None
    count: int
    what: str

    @property
    def place(self) -> str:
        """``, row 3, column score`` for a message."""
        row = "" if self.row is None else f", row {self.row}"
        return row + ("" if self.column is None else f", column {self.column}")


class _Rows:
    """One table under check."""

    def __init__(self, file: str, table: pa.Table) -> None:
        self.file = file
        self.table = table

    def breaches(self, rule: str, column: str, wrong: Mask, what: str) -> Iterator[Finding]:
        rows = np.flatnonzero(wrong)
        if len(rows):
            first = int(rows[0])
            shown = repr(self.table[column][first].as_py())
            shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
            yield Finding(rule, self.file, first + 1, column, len(rows), what.format(value=shown))

    def nulls(self, schema_names: Sequence[str]) -> Iterator[Finding]:
        for column in schema_names:
            if self.table[column].null_count:
                wrong = self.table[column].is_null().to_numpy().astype(bool)
                yield from self.breaches("null", column, wrong, "is null; every row needs a value")

    def among(self, rule: str, column: str, allowed: Sequence[str], what: str) -> Iterator[Finding]:
        known = pa.array(allowed, pa.string())
        wrong = pc.and_(
            pc.is_valid(self.table[column]), pc.invert(pc.is_in(self.table[column], value_set=known))
        )
        yield from self.breaches(rule, column, _mask(wrong), f"{{value}} {what}")

    def twice(self, rule: str, column: str, values: NDArray[np.int64], what: str) -> Iterator[Finding]:
        again = np.ones(len(values), dtype=bool)
        again[np.unique(values, return_index=True)[1]] = False
        yield from self.breaches(rule, column, again, what)

    def below_zero(self, column: str) -> Iterator[Finding]:
        wrong = pc.less(self.table[column], 0).fill_null(False)
        yield from self.breaches("range", column, _mask(wrong), "{value} is below 0")


def _mask(values: pa.ChunkedArray) -> Mask:
    mask: Mask = values.to_numpy().astype(bool)
    return mask


def grid_faults(tables: Tables, models: Sequence[str], metrics: Sequence[str]) -> Iterator[Finding]:
    """Every breach in a grid of these models and metrics."""
    ids = tables.prompts["prompt_id"]
    yield from prompt_faults(tables.prompts)
    yield from response_faults(tables.responses, ids, models)
    yield from label_faults(tables.labels, ids, models, metrics)


def prompt_faults(prompts: pa.Table) -> Iterator[Finding]:
    """Faults of ``prompts.parquet``: empty, null, repeated ids or texts, unknown splits, bad counts."""
    rows = _Rows("prompts.parquet", prompts)
    if prompts.num_rows == 0:
        yield Finding("empty", rows.file, None, None, 0, "holds no prompt")
        return
    nulls = list(rows.nulls([kind.name for kind in PROMPTS if not kind.nullable]))
    yield from nulls
    if nulls:
        return
    yield from rows.twice("duplicate", "prompt_id", codes(prompts["prompt_id"]), "{value} is given twice")
    yield from rows.twice("duplicate", "prompt", codes(prompts["prompt"]), "the same text under two ids")
    blank = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(prompts["prompt"])), 0)
    yield from rows.breaches("empty", "prompt", _mask(blank), "is empty")
    yield from rows.among("split", "split", SPLITS, "is neither train nor test")
    yield from rows.below_zero("input_tokens")


def response_faults(responses: pa.Table, ids: pa.ChunkedArray, models: Sequence[str]) -> Iterator[Finding]:
    """Faults of ``responses.parquet``: orphans, unknown models, repeated pairs, bad states and counts."""
    rows = _Rows("responses.parquet", responses)
    required = ("prompt_id", "model", "generation_digest", "status")
    keys = list(_key_faults(rows, ids, {"model": models}, required))
    yield from keys
    if keys:
        return
    yield from rows.among("status", "status", RESPONSE_STATUS, f"is none of {', '.join(RESPONSE_STATUS)}")
    yield from rows.among("finish", "finish_reason", FINISH_REASONS, "is neither stop nor length")
    yield from rows.among("tokens", "tokens_source", TOKENS_SOURCES, "is neither usage nor recount")
    yield from rows.below_zero("output_tokens")
    yield from rows.below_zero("input_tokens")


def label_faults(
    labels: pa.Table, ids: pa.ChunkedArray, models: Sequence[str], metrics: Sequence[str]
) -> Iterator[Finding]:
    """Faults of ``labels.parquet``: as for responses, and scores outside [0, 1] or at odds with status."""
    rows = _Rows("labels.parquet", labels)
    required = ("prompt_id", "model", "metric", "status", "judge_digest")
    keys = list(_key_faults(rows, ids, {"model": models, "metric": metrics}, required))
    yield from keys
    if keys:
        return
    yield from rows.among("status", "status", LABEL_STATUS, f"is none of {', '.join(LABEL_STATUS)}")
    score = labels["score"].to_numpy().astype(np.float64)  # null reads as NaN, so look at both
    null = labels["score"].is_null().to_numpy().astype(bool)
    with np.errstate(invalid="ignore"):
        outside = ~null & ~((score >= 0) & (score <= 1))
    yield from rows.breaches("range", "score", outside, "{value} is not in [0, 1]")
    ok = pc.equal(labels["status"], "ok").to_numpy().astype(bool)
    yield from rows.breaches("status", "score", ok & null, "is null though its status is ok")
    yield from rows.breaches("status", "score", ~ok & ~null, "{value} stands beside a status other than ok")
    for mixed in mixed_judges(labels):
        yield Finding("digest", rows.file, None, "judge_digest", mixed.judged, str(mixed))


def _key_faults(
    rows: _Rows, ids: pa.ChunkedArray, axes: dict[str, Sequence[str]], required: Sequence[str]
) -> Iterator[Finding]:
    nulls = list(rows.nulls(required))
    yield from nulls
    if nulls:
        return
    code = codes(rows.table["prompt_id"], ids)
    unknown = list(rows.breaches("orphan", "prompt_id", code < 0, "{value} is not in prompts.parquet"))
    for column, names in axes.items():
        axis = codes(rows.table[column], pa.array(names, pa.string()))
        unknown += rows.breaches("unknown", column, axis < 0, f"{{value}} is not a {column} of manifest.json")
        code = code * len(names) + axis
    yield from unknown
    if not unknown:
        what = f"{{value}} has two rows for the same {' and '.join(axes)}"
        yield from rows.twice("duplicate", "prompt_id", code, what)
