"""``rbx dataset``: check a grid, or show what stands in it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rbx.cli.main import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from rbx.grid.inspection import Inspection
    from rbx.grid.rules import Finding
    from rbx.grid.summary import GridSummary

app = typer.Typer(help="Check a grid, or show what stands in it.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A grid, such as datasets/quickstart.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
SHOWN_SOURCES = 12
COVERAGE = "labels present, answers that failed to be judged, answers cut at the token limit"


class Split(str, Enum):
    """Which prompts to look at."""

    ALL = "all"
    TRAIN = "train"
    TEST = "test"


@app.callback()
def dataset() -> None:
    """Check a grid, or show what stands in it."""


@app.command()
def check(folder: Folder, as_json: AsJson = False) -> None:
    """Schema, digests, duplicates, overlap of the splits, score ranges, coverage, truncation.

    Exit code 0 if the grid holds, 1 if it does not; missing labels are reported, not refused.
    """
    from rbx.grid.inspection import inspect_grid

    inspection = inspect_grid(folder)
    if as_json:
        print(json.dumps(inspection.document(), indent=1))
    else:
        _print_inspection(inspection)
    if inspection.faults:
        raise typer.Exit(1)


def _print_inspection(inspection: Inspection) -> None:
    from rich.console import Console

    console = Console()
    for kind, findings in (("fault", inspection.faults), ("warning", inspection.warnings)):
        for finding in findings:
            console.print(
                printable(f"{kind}: {_sentence(finding)}"), markup=False, highlight=False, soft_wrap=True
            )
    rows = [
        (
            each.model,
            each.metric,
            f"{each.present:,}",
            f"{each.share:.1%}",
            f"{each.judge_failed:,}",
            _percent(inspection.truncated_share[each.model]),
        )
        for each in inspection.coverage
    ]
    headings = ("model", "metric", "labels", "share", "failed", "cut")
    console.print(_table(_title(inspection.name, inspection.synthetic, COVERAGE), headings, rows))
    verdict = "holds" if not inspection.faults else f"does not hold: {len(inspection.faults)} fault(s)"
    console.print(
        f"{inspection.name} {verdict}, {len(inspection.warnings)} warning(s)", markup=False, highlight=False
    )


def _sentence(finding: Finding) -> str:
    more = f" ({finding.count:,} rows)" if finding.count > 1 and finding.row is not None else ""
    return f"{finding.file}{finding.place}: {finding.what}{more}"


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
    origin = read_manifest(folder).input_tokens_origin
    summary = summarise(view, split.value, input_tokens_origin=origin)
    targets = calibration(view, split.value) if view.synthetic else []
    if as_json:
        print(
            json.dumps(summary.document() | {"calibration": [each._asdict() for each in targets]}, indent=1)
        )
        return
    from rich.console import Console

    console = Console()
    _print_summary(console, summary)
    if targets:
        rows = [(each.name, f"{each.published:.4g}", f"{each.achieved:.4g}", each.source) for each in targets]
        title = "Calibration of the synthetic labels (synthetic)"
        console.print(_table(title, ("figure", "published", "achieved", "origin"), rows))


def _print_summary(console: Console, summary: GridSummary) -> None:
    title = _title(summary.name, summary.synthetic, f"{summary.metric}, {summary.split} prompts")
    headings = ("model", "labels", "mean", "zeros", "tokens", "p50", "p95", "max")
    rows = [
        (
            each.model,
            f"{each.n:,}" if each.n == each.prompts else f"{each.n:,} ({each.n / each.prompts:.1%})",
            _decimal(each.mean),
            _percent(each.zeros_share),
            *(_whole(v) for v in (each.length_mean, each.length_p50, each.length_p95, each.length_max)),
        )
        for each in summary.models
    ]
    console.print(_table(title, headings, rows))
    lines = [
        ("random model", _decimal(summary.random)),
        (f"best single ({summary.best_model})", _decimal(summary.best_single)),
        ("oracle", _decimal(summary.oracle)),
        ("zero scores", _percent(summary.zeros_share)),
        ("same score for all models", _percent(summary.same_share)),
    ]
    console.print(_table(f"On the {summary.n_complete:,} fully scored prompts", ("line", "quality"), lines))
    counts = [
        f"{summary.prompts:,} prompts ({summary.train:,} train, {summary.test:,} test)",
        f"{summary.harmful:,} harmful, {summary.input_tokens_mean:.0f} input tokens on average "
        f"({summary.input_tokens_origin})",
        f"sources: {_listed(summary.sources)}",
        f"digest: {summary.digest}",
    ]
    for line in counts:
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def _listed(sources: dict[str, int]) -> str:
    by_size = sorted(sources.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name} {count:,}" for name, count in by_size[:SHOWN_SOURCES])
    return shown + (f" and {len(by_size) - SHOWN_SOURCES:,} more" if len(by_size) > SHOWN_SOURCES else "")


def _title(name: str, synthetic: bool, what: str) -> str:
    return f"{name} (SYNTHETIC): {what}" if synthetic else f"{name}: {what}"


def _decimal(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _whole(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _table(title: str, headings: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), title_justify="left")
    for heading in headings:
        left = heading in ("model", "metric", "line", "figure", "origin")
        table.add_column(heading, justify="left" if left else "right", no_wrap=left, overflow="fold")
    for row in rows:
        table.add_row(*(escape(printable(str(cell))) for cell in row))
    return table
