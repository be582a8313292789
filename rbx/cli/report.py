"""``rbx report``: a sweep, or with ``--routers`` a bundle's routers, as tables, figures and one HTML page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rbx.errors import UsageError

if TYPE_CHECKING:
    from rbx.report.paired import Resampling

_ROUTERS = "Routers by themselves (--routers)"


def report(
    folder: Annotated[
        Path | None,
        typer.Argument(help="A sweep's directory, such as results/quickstart.", show_default=False),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Label that differences are taken against; default passthrough/shortest-queue, "
            "else another passthrough, else another policy that is not RouteBalance.",
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
    resamples: Annotated[int, typer.Option(min=100, max=1_000_000, help="Bootstrap resamples.")] = 10_000,
    executor: Annotated[
        str,
        typer.Option(
            help="Where a sweep's resamples are taken: processes of this machine, ray, ray://HOST:PORT or "
            "ray://local, as with rbx sweep."
        ),
    ] = "processes",
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
    out: Annotated[
        Path | None, typer.Option(help="Where the report goes, with --routers, --claims or --compare.")
    ] = None,
    claims: Annotated[
        Path | None,
        typer.Option(
            help="No sweep: a file of published statements, each beside what our sweeps say.",
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            help="Two sweeps' directories side by side, paired by prompt where workloads agree.",
            metavar="A B",
            show_default=False,
        ),
    ] = None,
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
    With --claims or --compare: published statements beside ours, or two sweeps side by side.

    Exit code 3: the report was written, but some cells do not add up and were left out, or are not there for
    a claim.
    """
    if routers:
        if folder is not None or baseline is not None or strict or claims or compare:
            raise UsageError(
                "--routers reports on no sweep: it takes neither FOLDER nor --baseline, --strict, --claims "
                "or --compare"
            )
        if executor != "processes":
            raise UsageError("--executor goes with sweeps; --routers takes its resamples on this machine")
        from rbx.cli.report_routers import RouterInputs, report_routers

        report_routers(
            RouterInputs.of(grid=grid, bundle=bundle, pool=pool, out=out),
            skip=skip or [],
            seed=seed,
            resamples=resamples,
            as_json=as_json,
        )
        return
    if any(given for given in (grid, bundle, pool, skip, seed)):
        raise UsageError("--grid, --bundle, --pool, --skip and --seed go with --routers")
    if sum(given is not None for given in (folder, claims, compare)) != 1:
        raise UsageError(
            "give one of FOLDER (a sweep's directory, such as results/quickstart), "
            "--routers, --claims and --compare"
        )
    if folder is None and (baseline is not None or strict):
        raise UsageError("--baseline and --strict go with FOLDER")
    if folder is not None and out is not None:
        raise UsageError(
            "--out goes with --routers, --claims and --compare; a sweep's report is in its FOLDER"
        )
    from rbx.cli.executor_option import ray_address
    from rbx.cli.report_claims import report_claims
    from rbx.cli.report_compare import report_compare
    from rbx.report.paired import Resampling
    from rbx.report.ray_bootstrap import resamples_on

    cluster = ray_address(executor)
    with resamples_on(cluster) as run:
        resampling = Resampling(n_resamples=resamples, run=run)
        if claims is not None:
            report_claims(claims, out, resampling, as_json=as_json)
        elif compare is not None:
            report_compare(*compare, out, resampling, as_json=as_json)
        elif folder is not None:
            _report_sweep(folder, baseline=baseline, strict=strict, resampling=resampling, as_json=as_json)


def _report_sweep(
    folder: Path, *, baseline: str | None, strict: bool, resampling: Resampling, as_json: bool
) -> None:
    from rich.console import Console

    from rbx.report.run import write_report
    from rbx.report.terminal import print_report

    written = write_report(folder, baseline=baseline, strict=strict, resampling=resampling)
    if as_json:
        print(json.dumps(written.summary, indent=1, ensure_ascii=False, allow_nan=False))
    else:
        console = Console()
        print_report(console, written.analysis)
        console.print(str(written.page), markup=False, highlight=False, soft_wrap=True)
    if written.analysis.sweep.invalid:
        raise typer.Exit(3)
