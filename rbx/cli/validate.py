"""``rbx validate``: a live sweep beside the simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rbx.report.fidelity.study import Fidelity


def validate(
    folder: Annotated[Path, typer.Argument(help="A live sweep's directory, such as results/live.")],
    time_scale: Annotated[
        float | None,
        typer.Option(
            help="Simulated seconds in a real one, of mock servers; as the cells tell unless given.",
            show_default=False,
        ),
    ] = None,
    block_s: Annotated[
        float | None,
        typer.Option(
            help="Seconds of a block of time, half of which are held out; 10, or less for short runs.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the held-out blocks and the intervals.")] = 0,
    resamples: Annotated[int, typer.Option(min=100, max=1_000_000, help="Bootstrap resamples.")] = 2_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json instead of tables.")] = False,
) -> None:
    """Replay a live sweep in the simulator and tell how far off it is; writes FOLDER/validate.

    Decisions replayed: each request at the server and moment of its dispatch, with step times of the pool
    file and with those fitted to one half of the run, judged on the other. Policies run again: where the
    simulator would have sent the requests, and whether it ranks the policies as the live run does.

    Exit code 3: done, but some cells are invalid and were left out.
    """
    from rbx.report.fidelity.files import summary, write_fidelity
    from rbx.report.fidelity.study import FidelityOptions, study
    from rbx.report.load import read_sweep
    from rbx.report.paired import Resampling

    options = FidelityOptions(time_scale, block_s, seed, Resampling(n_resamples=resamples, seed=seed))
    found = study(read_sweep(folder), options)
    page = write_fidelity(found)
    if as_json:
        print(json.dumps(summary(found), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        _show(found, page)
    if found.sweep.invalid:
        raise typer.Exit(3)


def _show(found: Fidelity, page: Path) -> None:
    from rich.console import Console
    from rich.text import Text

    from rbx.report.fidelity.tables import all_tables
    from rbx.report.fidelity.words import headline, warnings
    from rbx.report.plain_text import printable
    from rbx.report.terminal import as_rich

    console = Console()
    stamp = "SIMULATED ENGINE" if found.simulated else ""
    console.print(Text(printable(str(found.sweep.manifest.get("name", ""))), style="bold"), Text(stamp))
    for sentence in headline(found):
        console.print(Text(printable(sentence)))
    for sentence in warnings(found):
        console.print(Text(f"! {printable(sentence)}", style="yellow"))
    console.print()
    for table in all_tables(found):
        console.print(as_rich(table, stamp))
    console.print(str(page), markup=False, highlight=False, soft_wrap=True)
