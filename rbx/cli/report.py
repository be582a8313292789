"""``rbx report``: a sweep, or with ``--routers`` a bundle's routers, as tables, figures and one HTML page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rbx.errors import UsageError

_ROUTERS = "Routers by themselves (--routers)"


def report(
    folder: Annotated[
        Path | None,
        typer.Argument(help="A sweep's directory, such as results/quickstart.", show_default=False),
    ] = None,
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
    routers: Annotated[
        bool,
        typer.Option(
            "--routers",
            help="No sweep: judge the choices of a bundle's routers on the grid's test prompts.",
            rich_help_panel=_ROUTERS,
        ),
    ] = False,
    grid: Annotated[
        Path | None, typer.Option(help="Grid that the bundle was trained on.", rich_help_panel=_ROUTERS)
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(help="Bundle with routers (rbx train --router).", rich_help_panel=_ROUTERS),
    ] = None,
    pool: Annotated[
        Path | None, typer.Option(help="Pool file: models and prices.", rich_help_panel=_ROUTERS)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where the report goes.", rich_help_panel=_ROUTERS)] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            help="Leave a part out: flips, held-out-sources or label-noise (repeatable). The last two train "
            "routers again.",
            rich_help_panel=_ROUTERS,
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, help="Seed of noise, training and resamples.", rich_help_panel=_ROUTERS),
    ] = 0,
) -> None:
    """Check, measure and compare the cells of a sweep; writes FOLDER/report/index.html.

    With --routers: how good the routers of a bundle are by themselves, without queues; writes OUT/index.html.

    Exit code 3: the report was written, but some cells do not add up and were left out.
    """
    if routers:
        if folder is not None or baseline is not None or strict:
            raise UsageError(
                "--routers reports on no sweep: it takes neither FOLDER nor --baseline nor --strict"
            )
        from rbx.cli.report_routers import RouterInputs, report_routers

        report_routers(
            RouterInputs.of(grid=grid, bundle=bundle, pool=pool, out=out),
            skip=skip or [],
            seed=seed,
            resamples=resamples,
            as_json=as_json,
        )
        return
    if any(given for given in (grid, bundle, pool, out, skip, seed)):
        raise UsageError("--grid, --bundle, --pool, --out, --skip and --seed go with --routers")
    if folder is None:
        raise UsageError("FOLDER is missing: a sweep's directory, such as results/quickstart")
    _report_sweep(folder, baseline=baseline, strict=strict, resamples=resamples, as_json=as_json)


def _report_sweep(folder: Path, *, baseline: str | None, strict: bool, resamples: int, as_json: bool) -> None:
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
