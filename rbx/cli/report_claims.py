"""``rbx report --claims``: published statements beside ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rbx.report.claims.study import ClaimsStudy
    from rbx.report.paired import Resampling


def report_claims(file: Path, out: Path | None, resampling: Resampling, *, as_json: bool) -> None:
    """Judge the claims of a file, write them, show the short answer; exit code 3 where some were not run."""
    from rbx.config.claims import load_claims
    from rbx.report.claims.run import write_claims
    from rbx.report.claims.study import study_claims

    loaded = load_claims(file)
    study = study_claims(loaded.value, file, resampling)
    written = write_claims(study, Path("results") / "claims" / loaded.value.name if out is None else out)
    if as_json:
        print(json.dumps(written.summary, indent=1, ensure_ascii=False, allow_nan=False))
    else:
        _show(study, written.page)
    if not study.is_complete:
        raise typer.Exit(3)


def _show(study: ClaimsStudy, page: Path) -> None:
    from rich.console import Console
    from rich.text import Text

    from rbx.report.claims.tables import brief_table, tally_table
    from rbx.report.claims.tally import tallies
    from rbx.report.claims.words import answers, lead, warnings
    from rbx.report.plain_text import printable
    from rbx.report.terminal import as_rich

    console, stamp = Console(), " · ".join(study.kinds)
    console.print(Text(printable(study.file.name), style="bold"), Text(stamp, style="bold red"))
    console.print(Text(printable(lead(study))))
    for line in warnings(study):
        console.print(Text(f"! {printable(line)}", style="yellow"))
    for line in answers(study):
        console.print(Text(f"- {printable(line)}"))
    console.print()
    console.print(as_rich(tally_table(tallies(study.judged)), stamp))
    console.print(as_rich(brief_table(study), stamp))
    console.print(str(page), markup=False, highlight=False, soft_wrap=True)
