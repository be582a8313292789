"""``rbx dataset check``: faults, warnings, and what became of every answer and every label."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rbx.cli.grid_tables import grid_table, percent, print_lines, titled

if TYPE_CHECKING:
    from rich.console import Console

    from rbx.grid.census import AnswerCensus, Coverage, MetricCensus, Reason
    from rbx.grid.decile import LengthCoverage
    from rbx.grid.inspection import Inspection
    from rbx.grid.rules import Finding


def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A grid, such as datasets/quickstart.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Schema, digests, duplicates, overlap of the splits, score ranges, judges, coverage, truncation.

    Exit code 0 if the grid holds, 1 if it does not; missing labels are reported, not refused.
    """
    from rbx.grid.inspection import inspect_grid

    inspection = inspect_grid(folder)
    if as_json:
        print(json.dumps(inspection.document(), indent=1))
    else:
        _print_inspection(inspection)
    if inspection.faults:
        raise typer.Exit(1)


def _print_inspection(inspection: Inspection) -> None:
    from rich.console import Console

    console, census = Console(), inspection.census
    for kind, findings in (("fault", inspection.faults), ("warning", inspection.warnings)):
        print_lines(console, (f"{kind}: {_sentence(finding)}" for finding in findings))
    _print_answers(console, inspection)
    title = titled(inspection.name, inspection.synthetic, "labels")
    headings = ("model", "metric", "present", "share", "missing", "judge failed")
    console.print(grid_table(title, headings, map(_label_row, census.labels)))
    print_lines(console, (line for each in census.labels for line in _label_reasons(each)))
    print_lines(console, (_metric_line(each, inspection.quality) for each in census.metrics))
    print_lines(console, _length_lines("answers by prompt length", census.answered_by_length))
    for each in census.metrics:
        print_lines(console, _length_lines(f"{each.metric} by prompt length", each.by_prompt_length))
    verdict = "holds" if not inspection.faults else f"does not hold: {len(inspection.faults)} fault(s)"
    print_lines(console, [f"{inspection.name} {verdict}, {len(inspection.warnings)} warning(s)"])


def _sentence(finding: Finding) -> str:
    more = f" ({finding.count:,} rows)" if finding.count > 1 and finding.row is not None else ""
    return f"{finding.file}{finding.place}: {finding.what}{more}"


def _print_answers(console: Console, inspection: Inspection) -> None:
    title = titled(inspection.name, inspection.synthetic, "answers")
    headings = ("model", "ok", "empty", "error", "missing", "cut", "no length")
    console.print(grid_table(title, headings, map(_answer_row, inspection.census.answers)))
    for each in inspection.census.answers:
        print_lines(console, _answer_lines(each))


def _answer_lines(each: AnswerCensus) -> Iterator[str]:
    if each.usage or each.recounted:
        origins = (("usage", each.usage), ("recount", each.recounted), ("unstated", each.unstated))
        told = ", ".join(f"{name} {count:,}" for name, count in origins if count)
        yield f"lengths of {each.model} by origin: {told}"
    if each.errors:
        yield f"errors of {each.model}: {_listed(each.errors)}"


def _answer_row(each: AnswerCensus) -> tuple[str, ...]:
    counts = (each.ok, each.empty, each.error, each.missing)
    told = (f"{count:,}" for count in counts)
    return (each.model, *told, percent(each.truncated_share), f"{each.no_length:,}")


def _label_row(each: Coverage) -> tuple[str, ...]:
    counts = (f"{each.missing:,}", f"{each.judge_failed:,}")
    return (each.model, each.metric, f"{each.present:,}", percent(each.share), *counts)


def _label_reasons(each: Coverage) -> Iterator[str]:
    for what, reasons in (("missing", each.why_missing), ("judge failed", each.why_failed)):
        if reasons:
            yield f"{each.metric} of {each.model}, {what}: {_listed(reasons)}"


def _listed(reasons: tuple[Reason, ...]) -> str:
    return "; ".join(f"{each.count:,} × {each.text}" for each in reasons)


def _metric_line(each: MetricCensus, quality: str) -> str:
    role = " (stands for quality)" if each.metric == quality else ""
    judges = ", ".join(f"{digest} ({count:,} labels)" for digest, count in each.judges.items()) or "none"
    cut = ", ".join(
        f"{text} {percent(count / each.judged)}" for text, count in each.cut.items() if each.judged
    )
    return f"{each.metric}{role}: judge digest {judges}" + (f"; judge saw a cut {cut}" if cut else "")


def _length_lines(what: str, coverage: LengthCoverage) -> Iterator[str]:
    """One line on coverage by tenths of length, where anything is missing."""
    if len(coverage.deciles) < 2 or all(each.share == 1 for each in coverage.deciles):
        return
    parts = ", ".join(f"{each.low:.0f}–{each.high:.0f} {each.share:.1%}" for each in coverage.deciles)
    yield f"{what} in tokens: {parts}"
