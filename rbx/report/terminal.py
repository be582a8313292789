"""The short answer in a terminal. Text of the sweep is printed as text, never read as markup."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from rbx.report.analysis import Analysis
from rbx.report.answer import AnswerList
from rbx.report.engine import kinds
from rbx.report.headline import headline
from rbx.report.ontime.leaders import leaders_table
from rbx.report.plain_text import printable
from rbx.report.rate_tables import rate_tables
from rbx.report.sweep_tables import winners_table
from rbx.report.table import Table, Value

_STYLES = {"good": "green", "bad": "red", "mute": "dim", "": ""}
_BRIEF = ("policy", "quality", "E2E, s", "p99", "TTFT, s", "$ / 1,000", "req/s", "SLO met")
_COST_NOTE = "$ / 1,000: USD per 1,000 completed requests. req/s: completed within the arrival window."


def print_report(console: Console, analysis: Analysis) -> None:
    """What was run, what wins, what does not, and the cells of the middle rate."""
    words = headline(analysis)
    name = str(analysis.sweep.manifest.get("name", ""))
    console.print(
        Text(printable(name), style="bold"), Text(" · ".join(kinds(analysis.sweep)), style="bold red")
    )
    console.print(Text(printable(words.run)))
    print_words(console, words.warnings, words.answer)
    stamp = " · ".join(kinds(analysis.sweep))
    if analysis.on_time is not None:
        console.print(as_rich(leaders_table(analysis.on_time), stamp))
    console.print(as_rich(winners_table(analysis), stamp))
    cells = _brief(next(rate_tables(analysis.middle, analysis.baseline_label)))
    console.print(as_rich(cells, f"λ = {analysis.middle.rate_per_s:g} req/s · {stamp}".rstrip(" ·")))


def print_words(console: Console, warnings: Iterable[str], answers: Iterable[AnswerList]) -> None:
    """What limits the figures, then what they say."""
    for line in warnings:
        console.print(Text(f"! {printable(line)}", style="yellow"))
    for found in answers:
        console.print(Text(f"\n{printable(found.title)}", style="bold"))
        for line in found.lines:
            console.print(Text(f"- {printable(line)}"))
        if found.note:
            console.print(Text(printable(found.note), style="dim"))
    console.print()


def _brief(table: Table) -> Table:
    """A few columns without their intervals; the page has them all."""
    chosen = [index for index, column in enumerate(table.columns) if column.title in _BRIEF]
    rows = tuple(tuple(replace(row[index], sub="") for index in chosen) for row in table.rows)
    note = f"{table.note} {_COST_NOTE}"
    return replace(table, note=note, columns=tuple(table.columns[index] for index in chosen), rows=rows)


def as_rich(table: Table, stamp: str) -> RichTable:
    """A table for a terminal; ``stamp`` follows its caption."""
    shown = RichTable(
        title=Text(f"{table.caption} · {stamp}" if stamp else table.caption),
        caption=Text("\n".join(printable(line) for line in (table.note, table.footnote) if line)),
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for column in table.columns:
        shown.add_column(
            Text(printable(column.title)), justify="right" if column.numeric else "left", overflow="fold"
        )
    # Flags hang to the right of a column of numbers, so that its digits stay aligned.
    hang = [
        column.numeric and any(row[index].flag for row in table.rows)
        for index, column in enumerate(table.columns)
    ]
    for row in table.rows:
        shown.add_row(*map(_text, row, hang))
    return shown


def _text(value: Value, hang: bool) -> Text:
    flag = value.flag or (" " if hang else "")
    text = Text(printable(value.text) + flag, style=_STYLES[value.tone])
    return text.append(f"\n{printable(value.sub)}", style="dim") if value.sub else text
