"""Collecting prompts: every source read and filtered, quotas filled, and a record of how it went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rbx.config.labelling import Prompts, PromptSource, TablePrompts
from rbx.errors import DatasetError
from rbx.grid.table import refuse_absent_columns
from rbx.label.answer import Question
from rbx.label.prompts.draw import Draw
from rbx.label.prompts.files import public_files, table_files
from rbx.label.prompts.public import PUBLIC
from rbx.label.prompts.quota import quotas
from rbx.label.prompts.reading import Reading, RowSource, Rules, read_source
from rbx.label.prompts.table import table_reader
from rbx.label.tokenizer import TokenCounter

Say = Callable[[str], None]


@dataclass(frozen=True)
class Collected:
    """Questions in the order of the draw, so that the first of them are a fair sample of all.

    ``provenance`` tells, for each source, where its rows came from, its licence, how many were left out by
    which rule, what it had, its quota and what was taken; and how input tokens were counted.
    """

    questions: tuple[Question, ...]
    provenance: dict[str, Any]


class _Opened(NamedTuple):
    """A source with its files at hand, what is told of them, and its part of the total."""

    rows: RowSource
    origin: dict[str, Any]
    share: float


class _Drawn(NamedTuple):
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
    opened = [_open(source, position, say) for position, source in enumerate(spec.sources)]
    rules = Rules(tokens, spec.max_prompt_tokens, {})
    drawn = []
    for source in opened:
        say(f"reading {source.rows.name}")
        draw = Draw(spec.seed, source.rows.name, spec.total)
        drawn.append(_Drawn(read_source(source.rows, rules, draw), draw))
    _refuse_unmapped(spec.sources, opened, drawn)

    shares = [source.share for source in opened]
    available = [each.draw.available for each in drawn]
    if not sum(available):
        raise DatasetError(f"no prompt passes the filters; {_left_out(opened, drawn)}")
    total = sum(available) if spec.total is None else spec.total
    taken = quotas(total, shares, available)
    asked = available if spec.total is None else quotas(total, shares, [total] * len(shares))
    _tell(say, opened, available, asked, spec.total)
    ranked = [one for each, n in zip(drawn, taken, strict=True) for one in each.draw.take(n)]
    questions = tuple(each.question for each in sorted(ranked, key=lambda each: each.rank))
    return Collected(questions, _provenance(spec, tokens, opened, drawn, asked, taken))


def _open(source: PromptSource, position: int, say: Say) -> _Opened:
    if isinstance(source, TablePrompts):
        columns = tuple({name: None for name in source.columns.model_dump().values() if name})
        files = table_files(source.path)
        rows = RowSource(source.name, files.paths, columns, table_reader(source.name, source.columns))
        return _Opened(rows, files.provenance, source.share)
    dataset, name = PUBLIC[source.kind], source.name or source.kind
    if source.path is None:
        say(f"fetching {source.hub or dataset.hub} from the hub")
    files = public_files(source, dataset, position)
    rows = RowSource(name, files.paths, dataset.columns, dataset.read)
    return _Opened(rows, files.provenance, source.share)


def _refuse_unmapped(
    sources: Sequence[PromptSource], opened: Sequence[_Opened], drawn: Sequence[_Drawn]
) -> None:
    for source, each, (reading, _) in zip(sources, opened, drawn, strict=True):
        if isinstance(source, TablePrompts):
            refuse_absent_columns(each.rows.paths[0], [source.columns], reading.columns)


def _tell(
    say: Say, opened: Sequence[_Opened], available: Sequence[int], asked: Sequence[int], total: int | None
) -> None:
    """Every source that can't fill its quota, and whether the others can."""
    if total is None:
        return
    for source, has, quota in zip(opened, available, asked, strict=True):
        if has < quota:
            say(f"{source.rows.name} has {has:,} prompts for its quota of {quota:,}")
    if sum(available) < total:
        say(f"all sources together have {sum(available):,} prompts, fewer than the {total:,} asked for")


def _left_out(opened: Sequence[_Opened], drawn: Sequence[_Drawn]) -> str:
    parts = []
    for source, (reading, _) in zip(opened, drawn, strict=True):
        rules = ", ".join(f"{n:,} {rule}" for rule, n in sorted(reading.dropped.items()))
        parts.append(f"{source.rows.name}: {reading.rows:,} rows" + (f" ({rules})" if rules else ""))
    return "; ".join(parts)


def _provenance(
    spec: Prompts,
    tokens: TokenCounter,
    opened: Sequence[_Opened],
    drawn: Sequence[_Drawn],
    asked: Sequence[int],
    taken: Sequence[int],
) -> dict[str, Any]:
    sources = {
        source.rows.name: {
            "kind": each.kind,
            **source.origin,
            "rows": reading.rows,
            "dropped": dict(sorted(reading.dropped.items())),
            "available": draw.available,
            "quota": quota,
            "taken": n,
        }
        for each, source, (reading, draw), quota, n in zip(
            spec.sources, opened, drawn, asked, taken, strict=True
        )
    }
    return {
        "input_tokens": tokens.origin,
        "tokenizer_sha256": tokens.sha256,
        "max_prompt_tokens": spec.max_prompt_tokens,
        "seed": spec.seed,
        "prompts_asked_for": spec.total,
        "prompts_taken": sum(taken),
        "prompt_sources": sources,
    }
