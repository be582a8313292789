"""What a source yields: prompts, responses and labels under the source's own keys, and where they came from.

A source is a function from its part of the spec to a ``Harvest``. It knows files and rows, so it checks
every value; it knows nothing of hashes, splits or missing pairs, which ``rbx.grid.assemble`` adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from rbx.grid.schema import LABELS, RESPONSES

Say = Callable[[str], None]


class PromptRow(NamedTuple):
    """One prompt.

    ``split_id`` decides the split where the source has an id of its own for that; ``source_id`` says where
    in its source the prompt stands; ``tests`` are Python statements that check an answer's code.
    """

    key: str
    prompt: str
    source: str
    reference: str | None
    is_harmful: bool
    input_tokens: int
    split_id: str | None = None
    source_id: str | None = None
    tests: str | None = None


class ResponseRow(NamedTuple):
    """One answer of one model; ``status`` is ok, empty or error, and ``error`` says why.

    ``input_tokens`` is what the server counted, with its chat template; ``tokens_source`` is usage where
    the lengths are the server's, recount where they were counted afterwards, None where unknown.
    """

    key: str
    model: str
    response: str | None
    output_tokens: int | None
    finish_reason: str | None
    generation_digest: str
    status: str
    input_tokens: int | None = None
    tokens_source: str | None = None
    error: str | None = None


class LabelRow(NamedTuple):
    """One score in [0, 1], or None with a status that says why.

    ``raw`` is what a judge wrote where it could not be read; ``cut`` names the texts that the judge saw
    only the beginning of, such as ``input,reference``.
    """

    key: str
    model: str
    metric: str
    score: float | None
    status: str
    reason: str | None
    judge_digest: str
    raw: str | None = None
    cut: str | None = None


def _keyed(schema: pa.Schema) -> pa.Schema:
    fields = [pa.field("key", pa.string(), nullable=False), *list(schema)[1:]]
    return pa.schema(fields)


HARVEST_PROMPTS = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("prompt", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("reference", pa.string()),
        pa.field("is_harmful", pa.bool_(), nullable=False),
        pa.field("input_tokens", pa.int32(), nullable=False),
        pa.field("split_id", pa.string()),
        pa.field("source_id", pa.string()),
        pa.field("tests", pa.string()),
    ]
)
HARVEST_RESPONSES = _keyed(RESPONSES)
HARVEST_LABELS = _keyed(LABELS)


@dataclass(frozen=True)
class Harvest:
    """Three tables joined by ``key``, their provenance, and whether a program made them up."""

    prompts: pa.Table
    responses: pa.Table
    labels: pa.Table
    provenance: dict[str, Any] = field(default_factory=dict)
    synthetic: bool = False


def harvest_rows(
    prompts: Sequence[PromptRow],
    responses: Sequence[ResponseRow],
    labels: Sequence[LabelRow],
    provenance: dict[str, Any],
) -> Harvest:
    """Rows to tables."""
    return Harvest(
        prompts=_table(prompts, HARVEST_PROMPTS),
        responses=_table(responses, HARVEST_RESPONSES),
        labels=label_table(labels),
        provenance=provenance,
    )


def label_table(rows: Sequence[LabelRow]) -> pa.Table:
    """Labels alone, as a table of ``HARVEST_LABELS``."""
    return _table(rows, HARVEST_LABELS)


def harvest_columns(columns: Mapping[str, pa.Array], schema: pa.Schema) -> pa.Table:
    """Columns to a table of ``schema``; those not given are null."""
    n = len(next(iter(columns.values())))
    arrays = [columns[kind.name] if kind.name in columns else pa.nulls(n, kind.type) for kind in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [
        pa.array(column, type=kind.type, from_pandas=False)
        for column, kind in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
