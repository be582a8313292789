"""From a source's rows to a draw: formatted, filtered, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from rbx.grid.files import read_rows
from rbx.grid.split import prompt_id
from rbx.grid.values import Row
from rbx.label.answer import Question
from rbx.label.prompts.draft import REFUSAL, Draft, Reader, Unfit
from rbx.label.prompts.draw import Draw
from rbx.label.tokenizer import TokenCounter

COUNTED_AT_ONCE = 1024
EMPTY, TOO_LONG = "empty prompt", "more tokens than max_prompt_tokens"
DUPLICATE, IN_ANOTHER = "duplicate", "duplicate of another source"


class RowSource(NamedTuple):
    """A source under its name in the spec: its files, the columns that ``read`` looks at, and ``read``."""

    name: str
    paths: tuple[Path, ...]
    columns: tuple[str, ...]
    read: Reader


class Rules(NamedTuple):
    """What every prompt must pass; ``seen``: the ids of all prompts so far and where they stood first."""

    tokens: TokenCounter
    max_tokens: int | None
    seen: dict[str, str]


@dataclass
class Reading:
    """Rows read, how many of them each rule left out, and the columns that any had."""

    rows: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    columns: set[str] = field(default_factory=set)


def read_source(source: RowSource, rules: Rules, draw: Draw) -> Reading:
    """Add every prompt that passes to ``draw``; raises ``DatasetError`` for a malformed row.

    Of prompts with equal text the first stays, also across the sources read with the same ``rules``.
    """
    reading = Reading()
    drafts = _distinct(source, rules.seen, reading)
    while chunk := list(islice(drafts, COUNTED_AT_ONCE)):
        counts = rules.tokens.counts([draft.prompt for _, draft in chunk])
        for (identity, draft), tokens in zip(chunk, counts, strict=True):
            if rules.max_tokens is not None and tokens > rules.max_tokens:
                reading.dropped[TOO_LONG] += 1
            else:
                draw.add(_question(source.name, identity, draft, tokens))
    return reading


def _distinct(source: RowSource, seen: dict[str, str], reading: Reading) -> Iterator[tuple[str, Draft]]:
    for row in _rows(source):
        draft = source.read(row, reading.rows)
        reading.rows += 1
        reading.columns.update(row.values)
        if isinstance(draft, Unfit):
            reading.dropped[draft.rule] += 1
            continue
        if not draft.prompt.strip():
            reading.dropped[EMPTY] += 1
            continue
        identity = prompt_id(draft.prompt)
        first = seen.get(identity)
        if first is None:
            seen[identity] = source.name
            yield identity, draft
        else:
            reading.dropped[DUPLICATE if first == source.name else IN_ANOTHER] += 1


def _rows(source: RowSource) -> Iterator[Row]:
    for path in source.paths:
        yield from read_rows(path, source.columns)


def _question(source: str, identity: str, draft: Draft, tokens: int) -> Question:
    reference = draft.reference if draft.reference and draft.reference.strip() else None
    return Question(
        prompt_id=identity,
        prompt=draft.prompt,
        source=draft.source or source,
        source_id=draft.source_id,
        reference=REFUSAL if reference is None and draft.is_harmful else reference,
        tests=draft.tests if draft.tests and draft.tests.strip() else None,
        is_harmful=draft.is_harmful,
        input_tokens=tokens,
    )
