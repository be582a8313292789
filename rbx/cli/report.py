"""``rbx report``: from a sweep's directory to tables, figures and one HTML page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[Path, typer.Argument(help="A sweep's directory, such as results/quickstart.")],
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Label that differences are taken against; default passthrough/shortest-queue.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json instead of tables.")] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Fail if a cell is invalid or a completed request has no quality score."
        ),
    ] = False,
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples.")] = 10_000,
) -> None:
    """Check, measure and compare the cells of a sweep; writes FOLDER/report/index.html.

    Exit code 3: the report was written, but some cells do not add up and were left out.
    """
    from rich.console import Console

    from rbx.report.paired import Resampling
    from rbx.report.run import write_report
    from rbx.report.terminal import print_report

    written = write_report(
        folder, baseline=baseline, strict=strict, resampling=Resampling(n_resamples=resamples)
    )
    if as_json:
        print(json.dumps(written.summary, indent=1, ensure_ascii=False, allow_nan=False))
    else:
        console = Console()
        print_report(console, written.analysis)
        console.print(str(written.page), markup=False, highlight=False, soft_wrap=True)
    if written.analysis.sweep.invalid:
        raise typer.Exit(3)
