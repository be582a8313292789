"""``rbx sweep``: run or resume every cell of an experiment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.progress import Progress

    from rbx.sweep.plan import Plan


def sweep(
    file: Annotated[Path, typer.Argument(help="Experiment file, such as experiments/quickstart.yaml.")],
    out: Annotated[
        Path | None, typer.Option(help="Directory of the results; default results/NAME.", show_default=False)
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override a key: --set workload.seeds=[0,1] (repeatable)."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Cells at a time (default: one a core, or a CPU of the cluster); none for live sweeps.",
        ),
    ] = None,
    executor: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Where simulated cells run: processes of this machine; ray, the cluster of RAY_ADDRESS or "
            "the one that this machine is part of; ray://HOST:PORT; ray://local, one started for this sweep.",
        ),
    ] = "processes",
    redact_text: Annotated[
        bool, typer.Option("--redact-text", help="Live: keep hashes of the served answers, no text.")
    ] = False,
    retry_invalid: Annotated[
        bool, typer.Option("--retry-invalid", help="Live: run cells again that are marked invalid.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the cells and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Run λ × policies × seeds; the same command again resumes what is not finished.

    Ctrl-C, SIGTERM or a closed terminal lets running cells finish, a second Ctrl-C aborts; nothing
    finished is lost either way.

    Exit code 3: some live cells are invalid and count for nothing.
    """
    from rich.console import Console

    from rbx.cli.executor_option import ray_address
    from rbx.compiled import is_cold
    from rbx.config.experiment import load_experiment
    from rbx.sweep.plan import make_plan

    loaded = load_experiment(file, [*(overrides or []), *(["live.keep_text=false"] if redact_text else [])])
    is_live = loaded.value.engine == "live"
    _check_options(is_live=is_live, jobs=jobs, executor=executor, retry_invalid=retry_invalid)
    cluster = ray_address(executor)
    if is_cold():
        typer.echo("compiling kernels: half a minute, once after each change of the sources", err=True)
    plan = make_plan(loaded)
    folder = out or Path("results") / loaded.value.name
    console = Console(stderr=True)
    if dry_run:
        _warn(console, plan, folder)
        _list_cells(plan, as_json=as_json)
        return
    _announce(console, plan)
    _warn(console, plan, folder)
    if is_live:
        from rbx.cli.sweep_live import run_live

        run_live(plan, folder, retry_invalid=retry_invalid, as_json=as_json)
        return
    _run(console, plan, folder, jobs, cluster, as_json=as_json)


def _check_options(*, is_live: bool, jobs: int | None, executor: str, retry_invalid: bool) -> None:
    from rbx.errors import UsageError

    if is_live and executor != "processes":
        raise UsageError(
            "--executor is for simulated sweeps: live cells run one after the other, where the servers are"
        )
    if is_live and jobs is not None:
        raise UsageError("--jobs is for simulated sweeps: live cells run one after the other")
    if not is_live and retry_invalid:
        raise UsageError("--retry-invalid is for live sweeps")


def _list_cells(plan: Plan, *, as_json: bool) -> None:
    from dataclasses import asdict

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    if as_json:
        print(json.dumps([asdict(cell) for cell in plan.cells], indent=1))
        return
    table = Table("cell", "policy", "λ (req/s)", "load", "seed", "requests", title=_title(plan.manifest))
    for cell in plan.cells:
        load = "" if cell.load is None else f"{cell.load:.0%}"
        table.add_row(
            cell.cell_id,
            escape(cell.label),
            f"{cell.rate_per_s:g}",
            load,
            str(cell.seed),
            str(cell.n_requests),
        )
    console = Console()
    console.print(table)
    total = sum(cell.n_requests for cell in plan.cells)
    console.print(f"{len(plan.cells)} cells, {total:,} requests")


def _title(manifest: dict[str, Any]) -> str:
    kinds = [
        word
        for word, is_so in (
            ("SIMULATED ENGINE", manifest["simulated"]),
            ("LIVE SERVERS", manifest["engine"] == "live"),
            ("SYNTHETIC GRID", manifest["synthetic_grid"]),
        )
        if is_so
    ]
    return f"{manifest['name']} ({', '.join(kinds)})" if kinds else str(manifest["name"])


def _run(
    console: Any, plan: Plan, folder: Path, jobs: int | None, cluster: str | None, *, as_json: bool
) -> None:
    from rbx.sweep.run import run_sweep

    with _progress(console) as progress:
        task = progress.add_task("simulating", total=None)

        def started(todo: int, finished: int) -> None:
            if finished:
                progress.console.print(f"{finished} of {finished + todo} cells were finished before")
            progress.update(task, total=todo)

        result = run_sweep(
            plan,
            folder,
            jobs=jobs,
            ray_address=cluster,
            started=started,
            done=lambda cell: progress.advance(task),
            stopping=lambda: progress.console.print("finishing the cells under way; Ctrl-C again aborts"),
        )
    if as_json:
        print(json.dumps({"folder": str(folder), **vars(result)}))
    else:
        print(f"{result.ran} cells run, {result.resumed} resumed, {result.left} left: {folder}")
    if result.left:
        console.print("run the same command again to go on", style="yellow")
        raise typer.Exit(130)
    if not as_json:
        print(f"next: rbx report {folder}")


def _announce(console: Any, plan: Plan) -> None:
    manifest = plan.manifest
    kept = manifest["grid"]["coverage"]
    console.print(
        f"{_title(manifest)}: {len(plan.cells)} cells on pool {manifest['pool']['name']}, "
        f"{kept['used_prompts']} of {kept['split_prompts']} prompts usable, "
        f"{kept['labels_present']} of {kept['labels_expected']} labels present",
        highlight=False,
        markup=False,
    )
    if manifest["capacity"]:
        capacity = manifest["capacity"]
        console.print(
            f"capacity {capacity['rate_per_s']:g} req/s under {capacity['policy']}",
            markup=False,
            highlight=False,
        )


def _warn(console: Any, plan: Plan, folder: Path) -> None:
    from rbx.cli.sweep_warnings import warnings_of

    for line in warnings_of(plan, folder):
        console.print(f"warning: {line}", style="yellow", markup=False, highlight=False)


def _progress(console: Any) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
    )
