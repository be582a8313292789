"""``rbx report --compare``: two sweeps side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rbx.report.comparison.study import Comparison
    from rbx.report.paired import Resampling


def report_compare(a: Path, b: Path, out: Path | None, resampling: Resampling, *, as_json: bool) -> None:
    """Compare, write and show the short answer; exit code 3 where invalid cells were left out."""
    from rbx.report.comparison.files import write_comparison
    from rbx.report.comparison.study import compare

    found = compare(a, b, resampling)
    written = write_comparison(found, a / "compare" / b.resolve().name if out is None else out)
    if as_json:
        print(json.dumps(written.summary, indent=1, ensure_ascii=False, allow_nan=False))
    else:
        _show(found, written.page)
    if found.a.invalid or found.b.invalid:
        raise typer.Exit(3)


def _show(found: Comparison, page: Path) -> None:
    from rich.console import Console
    from rich.text import Text

    from rbx.report.comparison.files import title, warnings
    from rbx.report.comparison.tables import coverage_line, overview_table, settings_table
    from rbx.report.plain_text import printable
    from rbx.report.terminal import as_rich

    console, stamp = Console(), " · ".join(found.kinds)
    console.print(Text(printable(title(found)), style="bold"), Text(stamp, style="bold red"))
    console.print(Text(printable(coverage_line(found))))
    for line in warnings(found):
        console.print(Text(f"! {printable(line)}", style="yellow"))
    console.print()
    if found.settings:
        console.print(as_rich(settings_table(found), ""))
    console.print(as_rich(overview_table(found), stamp))
    console.print(str(page), markup=False, highlight=False, soft_wrap=True)
