"""Collecting prompts: every source read and filtered, quotas filled, and a record of how it went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rbx.config.labelling import Prompts, TablePrompts
from rbx.errors import DatasetError
from rbx.grid.table import refuse_absent_columns
from rbx.label.answer import Question
from rbx.label.prompts.draw import Draw
from rbx.label.prompts.quota import quotas
from rbx.label.prompts.reading import Reading, Rules, read_source
from rbx.label.prompts.sources import OpenSource, Say, open_source
from rbx.label.tokenizer import TokenCounter


@dataclass(frozen=True)
class Collected:
    """Questions in the order of the draw, so that the first of them are a fair sample of all.

    ``provenance`` tells how input tokens were counted and, for each source, where its rows came from, its
    licence, how many each rule left out, how many were available, its quota and how many were taken.
    """

    questions: tuple[Question, ...]
    provenance: dict[str, Any]


class _Read(NamedTuple):
    """A source that was read: its counts and its draw."""

    source: OpenSource
    reading: Reading
    draw: Draw


def collect(spec: Prompts, say: Say) -> Collected:
    """Read, filter and draw.

    The draw depends on the seed and the texts: not on the order of a source's rows, nor on the other
    sources, but for texts that stand in two of them and for what one gives in another's place.
    Raises ``DatasetError`` for files that are absent or malformed, and where no prompt passes.
    """
    tokens = TokenCounter(spec.tokenizer)
    # All files first: a source that can't be had should not be noticed after an hour of reading others.
    opened = [open_source(source, position, say) for position, source in enumerate(spec.sources)]
    rules = Rules(tokens, spec.max_prompt_tokens, {})
    sources = [_read(source, rules, spec, say) for source in opened]

    shares = [source.share for source in spec.sources]
    available = [each.draw.available for each in sources]
    if not sum(available):
        raise DatasetError(f"no prompt passes the filters; {'; '.join(map(_left_out, sources))}")
    total = sum(available) if spec.total is None else spec.total
    taken = quotas(total, shares, available)
    # What each would give if every source had enough.
    asked = available if spec.total is None else quotas(total, shares, [total] * len(shares))
    _tell_shortfalls(say, sources, asked, total)
    ranked = [one for each, n in zip(sources, taken, strict=True) for one in each.draw.take(n)]
    return Collected(
        questions=tuple(each.question for each in sorted(ranked, key=lambda each: each.rank)),
        provenance={
            "input_tokens": tokens.origin,
            "tokenizer_sha256": tokens.sha256,
            "max_prompt_tokens": spec.max_prompt_tokens,
            "seed": spec.seed,
            "prompts_asked_for": spec.total,
            "prompts_taken": sum(taken),
            "prompts": {
                each.source.rows.name: _record(each, quota, n)
                for each, quota, n in zip(sources, asked, taken, strict=True)
            },
        },
    )


def _read(source: OpenSource, rules: Rules, spec: Prompts, say: Say) -> _Read:
    say(f"reading {source.rows.name}")
    draw = Draw(spec.seed, source.rows.name, spec.total)
    reading = read_source(source.rows, rules, draw)
    if isinstance(source.spec, TablePrompts):
        refuse_absent_columns(source.spec.path, [source.spec.columns], reading.columns)
    return _Read(source, reading, draw)


def _tell_shortfalls(say: Say, sources: Sequence[_Read], asked: Sequence[int], total: int) -> None:
    """Name every source that can't fill its quota, and say so where the others can't either."""
    for each, quota in zip(sources, asked, strict=True):
        if each.draw.available < quota:
            say(f"{each.source.rows.name} has {each.draw.available:,} prompts for its quota of {quota:,}")
    available = sum(each.draw.available for each in sources)
    if available < total:
        say(f"all sources together have {available:,} prompts, fewer than the {total:,} asked for")


def _left_out(read: _Read) -> str:
    rules = ", ".join(f"{n:,} {rule}" for rule, n in sorted(read.reading.dropped.items()))
    return f"{read.source.rows.name}: {read.reading.rows:,} rows" + (f" ({rules})" if rules else "")


def _record(read: _Read, quota: int, taken: int) -> dict[str, Any]:
    return {
        **read.source.origin,
        "rows": read.reading.rows,
        "dropped": dict(sorted(read.reading.dropped.items())),
        "available": read.draw.available,
        "quota": quota,
        "taken": taken,
    }
