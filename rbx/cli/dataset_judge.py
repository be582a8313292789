"""``rbx dataset judge``: further scores for answers that are there already."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rbx.config.labelling import Judging
    from rbx.label.answer import Signal
    from rbx.label.regrade import Regrade

STOPPED = "stopped; the scores so far are kept: the same command goes on"


def judge(
    grid: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A grid with answers.", show_default=False)
    ] = None,
    spec: Annotated[
        Path | None,
        typer.Option("--spec", metavar="FILE", help="Judges and signals, or a data set spec with some."),
    ] = None,
    judges: Annotated[
        list[str] | None,
        typer.Option("--judge", metavar="NAME", help="This judge of the file alone (repeatable)."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The grid with the further metrics.")
    ] = None,
    served: Annotated[
        Path | None,
        typer.Option("--served", metavar="SWEEP", help="Score what a live sweep was served instead."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the file (repeatable)."),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Ask again where a judge failed in an earlier run.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Score the first N prompts alone.")
    ] = None,
    quality: Annotated[
        str | None,
        typer.Option("--quality", metavar="METRIC", help="This metric stands for quality from now on."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace another grid in --out.")] = False,
) -> None:
    """Score answers by further judges or rules: of a grid into another, or of a live sweep.

    Each score is kept as it lands, and the same command goes on where an earlier run was stopped.
    """
    from rbx.errors import UsageError

    if spec is None:
        raise UsageError("--spec FILE is needed: the judges and signals to score by")
    if served is not None:
        if any(each is not None for each in (grid, out, limit, quality)):
            raise UsageError(
                "--served scores a sweep in its own folder; leave DIR, --out, --limit and --quality out"
            )
        _judge_served(served, _signals(_judging(spec, judges, overrides)), retry_failed=retry_failed)
        return
    if grid is None or out is None:
        raise UsageError("give the grid DIR and --out DIR for the one with the further metrics")
    judging = _judging(spec, judges, overrides)
    from rbx.label.judge.record import judge_records
    from rbx.label.regrade import Regrade

    _judge_grid(Regrade(grid, out, retry_failed, force, judge_records(judging), limit, quality), judging)


def _judging(spec: Path, judges: list[str] | None, overrides: list[str] | None) -> Judging:
    from rbx.label.chosen import load_judging, only_judges

    return only_judges(load_judging(spec, overrides), judges or [], rules=False)


def _signals(judging: Judging) -> list[Signal]:
    from rbx.config.labelling import Generation, LabelSource
    from rbx.label.judge.build import build_judge
    from rbx.label.signals.build import build_signals

    generation = judging.generation if isinstance(judging, LabelSource) else Generation()
    return build_signals(judging, generation.max_tokens, build_judge)


def _judge_grid(task: Regrade, judging: Judging) -> None:
    from rbx.cli.built_grid import print_built
    from rbx.cli.label_progress import shown_progress
    from rbx.cli.stopped import leave_stopped
    from rbx.label.regrade import regrade_grid

    with shown_progress() as progress:
        built = regrade_grid(task, _signals(judging), progress)
    if built is None:
        leave_stopped(STOPPED)
    print_built(built, task.out)


def _judge_served(sweep: Path, signals: list[Signal], *, retry_failed: bool) -> None:
    from rich.console import Console

    from rbx.cli.grid_tables import decimal, grid_table
    from rbx.cli.label_progress import shown_progress
    from rbx.cli.stopped import leave_stopped
    from rbx.sweep.judge_served import judge_served

    with shown_progress() as progress:
        scores = judge_served(sweep, signals, progress, retry_failed=retry_failed)
    if scores is None:
        leave_stopped(STOPPED)
    rows = [
        (
            each.model,
            each.metric,
            f"{each.answers:,}",
            f"{each.scored:,}",
            f"{each.failed:,}",
            decimal(each.mean),
        )
        for each in scores
    ]
    headings = ("model", "metric", "answers", "scored", "failed", "mean")
    Console().print(grid_table(f"Served answers of {sweep}", headings, rows))
    print(f"scores: {sweep / 'served' / 'labels.parquet'}")
