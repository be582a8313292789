"""``rbx train --router``: routers trained into a bundle that is there already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rbx.heads.routers.train import RoutedQuality


def train_routers_into(
    folder: Path,
    grid: Path,
    pool: Path,
    names: Sequence[str],
    *,
    metric: str,
    seed: int,
    encoder_path: str | None,
    ties_to: str | None,
    as_json: bool,
) -> None:
    """Load, train, save, and tell what each router's first choice is worth on unseen prompts."""
    import json
    from dataclasses import asdict

    from rbx.cli.train_progress import shown_progress
    from rbx.config.pool import load_pool
    from rbx.errors import MissingExtraError, UsageError
    from rbx.grid.answers import read_answers
    from rbx.grid.store import open_view
    from rbx.heads.bundle import Bundle
    from rbx.heads.routers.build import ROUTERS, require
    from rbx.heads.routers.train import train_routers

    wanted = list(ROUTERS) if "all" in names else list(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in ROUTERS]
    if unknown:
        raise UsageError(f"--router {', '.join(unknown)}: there are {', '.join(ROUTERS)} and all")
    for name in list(wanted):
        try:
            require(name)
        except MissingExtraError as error:
            if name in names:
                raise
            wanted.remove(name)
            typer.echo(f"skipped: {error}", err=True)
    bundle = Bundle.load(folder)
    view = open_view(grid, metric)
    pool_value = load_pool(pool).value
    answers = read_answers(grid, view, pool_value.models) if "cascade" in wanted else None
    if answers is not None and "cascade" not in names and not any(any(row) for row in answers):
        wanted.remove("cascade")
        typer.echo(
            "skipped: router cascade learns from the answers' texts, and this grid holds none", err=True
        )
    with shown_progress() as progress:
        fuller, figures = train_routers(
            bundle,
            view,
            pool_value,
            wanted,
            seed,
            progress,
            encoder_path=encoder_path,
            ties_to=ties_to,
            answers=answers,
        )
    fuller.save(folder)
    if as_json:
        print(json.dumps({"bundle": str(folder), "routers": [asdict(figure) for figure in figures]}))
        return
    _show(figures)
    typer.echo(f"routers written to {folder}")


def _show(figures: Sequence[RoutedQuality]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    table = Table()
    table.add_column("router", no_wrap=True)  # a name is what experiments are written with
    for heading in ("routed quality", "95 %", "n", "goes to", "trained in"):
        table.add_column(heading, overflow="fold")
    for figure in figures:
        quality = figure.quality
        shares = sorted(figure.shares.items(), key=lambda item: -item[1])[:4]
        table.add_row(
            figure.router,
            "not estimable" if quality is None else f"{quality.mean:.4f}",
            "" if quality is None or quality.low is None else f"{quality.low:.4f} to {quality.high:.4f}",
            "" if quality is None else str(quality.n),
            escape(", ".join(f"{model} {share:.0%}" for model, share in shares if share > 0)),
            f"{figure.trained_s:.1f} s",
        )
    console.print(table)
    console.print(
        "routed quality: mean score of each router's first choice on test prompts labelled for every model, "
        "whatever it costs",
        markup=False,
    )
