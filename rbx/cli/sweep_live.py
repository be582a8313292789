"""The part of ``rbx sweep`` that drives live servers: one cell after another, watched as it goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rbx.sweep.live.run import LiveResult
    from rbx.sweep.plan import Plan


def run_live(plan: Plan, folder: Path, *, retry_invalid: bool, as_json: bool) -> None:
    """Run or resume a live sweep and tell how it went; exits with 130, 1 or 3 where it did not go well."""
    from rich.console import Console

    from rbx.cli.live_board import live_board
    from rbx.sweep.live.run import run_live_sweep

    console = Console(stderr=True)
    with live_board(console, plan) as board:
        result = run_live_sweep(
            plan,
            folder,
            board,
            retry_invalid=retry_invalid,
            stopping=lambda: board.note("finishing the cell under way; Ctrl-C again aborts it"),
        )
    if as_json:
        print(json.dumps({"folder": str(folder), **vars(result)}))
    else:
        print(f"{result.ran} cells run, {result.resumed} resumed, {result.left} left: {folder}")
    _leave(console, result, folder, as_json=as_json)


def _leave(console: Any, result: LiveResult, folder: Path, *, as_json: bool) -> None:
    if result.gave_up:
        console.print("the servers could not be had; the rest was not tried", style="red")
        raise typer.Exit(1)
    if result.left:
        console.print("run the same command again to go on", style="yellow")
        raise typer.Exit(130)
    if result.invalid:
        console.print(
            f"{result.invalid} of {result.planned} cells are invalid and count for nothing; rbx report lists "
            "why, --retry-invalid runs them again",
            style="yellow",
            markup=False,
            highlight=False,
        )
        raise typer.Exit(3)
    if not as_json:
        print(f"next: rbx report {folder}")
