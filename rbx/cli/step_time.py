"""``rbx train step-time``: fit step-time models to recorded steps."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rbx.heads.step_time.report import StepTimeReport


class FeatureSet(str, Enum):
    """Step-time models by the name that a pool file gives them."""

    A = "A"
    B = "B"
    C = "C"


def step_time(
    traces: Annotated[
        list[Path], typer.Argument(metavar="TRACE", help="Recorded steps of one server: Parquet or CSV.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="YAML file for the pool's step_time block; a report goes beside it.")
    ] = None,
    feature_set: Annotated[
        FeatureSet | None, typer.Option(help="Model of the block; the recommended one unless given.")
    ] = None,
    holdout: Annotated[float, typer.Option(help="Share of the blocks of time held out.")] = 0.25,
    block_s: Annotated[float, typer.Option(help="Length of a block of time in seconds.")] = 10.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the held-out blocks and the intervals.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Fit step-time models A, B and C to TRACE and measure them on held-out blocks of time."""
    import json

    from rbx.cli.train_progress import shown_progress
    from rbx.engine.step_trace import read_step_trace
    from rbx.errors import UsageError
    from rbx.heads.step_time.report import pool_fragment
    from rbx.heads.step_time.study import FitOptions, fit_step_time

    if out is not None and out.suffix not in (".yaml", ".yml"):
        raise UsageError(f"--out {out}: name it .yaml; the report goes beside it as .report.json")
    options = FitOptions(holdout=holdout, block_s=block_s, seed=seed)
    steps = [read_step_trace(path) for path in traces]
    with shown_progress() as progress:
        report = fit_step_time(steps, options, progress)
    chosen = feature_set.value if feature_set else report.recommended
    report.model(chosen)  # refused here if it was not fitted
    if as_json:
        print(json.dumps(report.as_json(), allow_nan=False))
    else:
        _show(report)
    block = pool_fragment(report, chosen)
    if out is not None:
        from rbx.heads.manifest import canonical

        out.parent.mkdir(parents=True, exist_ok=True)
        out.with_suffix(".report.json").write_bytes(canonical(report.as_json()))
        out.write_text(block, encoding="utf-8")
    if not as_json:
        print(block, end="")
        if out is not None:
            print(f"\nwritten to {out} and {out.with_suffix('.report.json')}")


def _show(report: StepTimeReport) -> None:
    from rich.console import Console

    from rbx.heads.step_time.tables import step_time_tables

    console = Console()
    for table in step_time_tables(report):
        console.print(table)
    for fit in report.models:
        for sentence in fit.unidentified:
            console.print(f"model {fit.feature_set}: {sentence}", markup=False)
    for note in report.notes:
        console.print(f"note: {note}", markup=False)
    console.print(f"recommended: model {report.recommended}\n", markup=False)
