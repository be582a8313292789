"""``rbx cell``: a cell in another tool's words, and another tool's results as cells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Export a cell, or import results of vllm bench serve.", no_args_is_help=True)


@app.callback()
def cell() -> None:
    """Cells of a sweep as result files of `vllm bench serve`, and such files as a sweep."""


@app.command("export")
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A sweep, such as results/quickstart.")],
    cell_id: Annotated[str, typer.Argument(metavar="CELL", help="Id of a cell, or how it begins.")],
    vllm: Annotated[
        Path, typer.Option(metavar="FILE.json", help="File to write, as `vllm bench serve --save-detailed`.")
    ],
) -> None:
    """Write one cell under the names that vLLM's benchmark uses, request by request.

    TTFT counts from the real send there, goodput from the scheduled time with the experiment's own targets.
    Simulated cells have no gaps between chunks: their itls are empty.

    Exit code 3: written, but the cell is invalid; the file says why (rbx_invalid).
    """
    from rbx.cli.main import printable
    from rbx.sweep.interop.bench_export import cell_of, export_cell
    from rbx.sweep.store import SweepStore

    store = SweepStore(folder)
    spec = cell_of(store, cell_id)
    content = export_cell(store, spec, vllm)
    print(
        f"{vllm}: {spec.label} at {spec.rate_per_s:g}/s, {content['completed']:,} completed, "
        f"{content['failed']:,} failed"
    )
    if invalid := content.get("rbx_invalid"):
        typer.echo(printable(f"this cell is invalid and counts for nothing: {'; '.join(invalid)}"), err=True)
        raise typer.Exit(3)


@app.command("import")
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE.json...", help="Results of `vllm bench serve --save-detailed`."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Sweep to write, such as results/theirs.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the cells as JSON.")] = False,
) -> None:
    """Make a sweep of results that vLLM's benchmark wrote; `rbx report DIR` shows what they hold.

    One cell a result. Nothing of it is about quality or cost, and requests are taken as scheduled when they
    were sent: the file does not tell how late that was.
    """
    from dataclasses import asdict

    from rbx.sweep.interop.bench_file import read_bench_file
    from rbx.sweep.interop.bench_import import import_results

    results = [(str(path), result) for path in files for result in read_bench_file(path)]
    specs = import_results(results, out)
    if as_json:
        print(json.dumps([asdict(spec) for spec in specs], indent=1))
        return
    for spec in specs:
        print(f"{spec.cell_id}  {spec.label} at {spec.rate_per_s:g}/s, {spec.n_requests:,} requests")
    print(f"next: rbx report {out}")
