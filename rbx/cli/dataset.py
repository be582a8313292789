"""``rbx dataset``: check a grid, show what stands in it, export it."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rbx.cli.dataset_agree import agree
from rbx.cli.dataset_check import check
from rbx.cli.dataset_export import export
from rbx.cli.dataset_judge import judge
from rbx.cli.grid_tables import decimal, grid_table, percent, print_lines, titled, whole

if TYPE_CHECKING:
    from rich.console import Console

    from rbx.grid.summary import GridSummary, SourceCounts

app = typer.Typer(help="Check a grid, show what stands in it, or export it.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A grid, such as datasets/quickstart.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
SHOWN_SOURCES = 12


class Split(str, Enum):
    """Which prompts to look at."""

    ALL = "all"
    TRAIN = "train"
    TEST = "test"


@app.callback()
def dataset() -> None:
    """Check a grid, show what stands in it, or export it."""


app.command()(check)
app.command()(export)
app.command()(judge)
app.command()(agree)


@app.command()
def show(
    folder: Folder,
    metric: Annotated[str, typer.Option(help="Which of the grid's metrics.")] = "quality",
    split: Annotated[Split, typer.Option(help="Which prompts.")] = Split.ALL,
    as_json: AsJson = False,
) -> None:
    """Counts, scores and lengths by model, and the lines to compare a router with."""
    from rbx.grid.manifest import read_manifest
    from rbx.grid.store import open_view
    from rbx.grid.summary import summarise
    from rbx.grid.synth.calibration import calibration

    view = open_view(folder, metric)
    manifest = read_manifest(folder)
    summary = summarise(view, split.value, input_tokens_origin=manifest.input_tokens_origin)
    targets = calibration(view, split.value) if view.synthetic else []
    if as_json:
        more = {
            "metrics": manifest.metrics,
            "quality": manifest.quality,
            "calibration": [each._asdict() for each in targets],
        }
        print(json.dumps(summary.document() | more, indent=1))
        return
    from rich.console import Console

    console = Console()
    _print_summary(console, summary)
    print_lines(console, [f"metrics: {manifest.metrics_told}"])
    if targets:
        rows = [(each.name, f"{each.published:.4g}", f"{each.achieved:.4g}", each.source) for each in targets]
        title = "Calibration of the synthetic labels (synthetic)"
        console.print(grid_table(title, ("figure", "published", "achieved", "origin"), rows))


def _print_summary(console: Console, summary: GridSummary) -> None:
    title = titled(summary.name, summary.synthetic, f"{summary.metric}, {summary.split} prompts")
    headings = ("model", "labels", "mean", "zeros", "tokens", "p50", "p95", "max")
    rows = [
        (
            each.model,
            f"{each.n:,}" if each.n == each.prompts else f"{each.n:,} ({each.n / each.prompts:.1%})",
            decimal(each.mean),
            percent(each.zeros_share),
            *(whole(v) for v in (each.length_mean, each.length_p50, each.length_p95, each.length_max)),
        )
        for each in summary.models
    ]
    console.print(grid_table(title, headings, rows))
    lines = [
        ("random model", decimal(summary.random)),
        (f"best single ({summary.best_model})", decimal(summary.best_single)),
        ("oracle", decimal(summary.oracle)),
        ("zero scores", percent(summary.zeros_share)),
        ("same score for all models", percent(summary.same_share)),
    ]
    console.print(
        grid_table(f"On the {summary.n_complete:,} fully scored prompts", ("line", summary.metric), lines)
    )
    counts = [
        f"{summary.prompts:,} prompts ({summary.train:,} train, {summary.test:,} test)",
        f"{summary.harmful:,} harmful, {summary.input_tokens_mean:.0f} input tokens on average "
        f"({summary.input_tokens_origin})",
        f"sources: {_listed(summary.sources)}",
        f"digest: {summary.digest}",
    ]
    print_lines(console, counts)


def _listed(sources: dict[str, SourceCounts]) -> str:
    by_size = sorted(sources.items(), key=lambda item: (-item[1].train - item[1].test, item[0]))
    shown = ", ".join(f"{name} {_split(counts)}" for name, counts in by_size[:SHOWN_SOURCES])
    return shown + (f" and {len(by_size) - SHOWN_SOURCES:,} more" if len(by_size) > SHOWN_SOURCES else "")


def _split(counts: SourceCounts) -> str:
    harmful = f", {counts.harmful:,} harmful" if counts.harmful else ""
    return f"{counts.train + counts.test:,} ({counts.train:,} train, {counts.test:,} test{harmful})"
