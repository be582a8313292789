"""Commands that end in each way a command can, for the tests of ``rbx.cli.main``."""

from __future__ import annotations

import errno
from typing import Annotated

import typer

from rbx.errors import DatasetError, UsageError


def end(
    how: Annotated[str, typer.Argument(help="The way to end.")],
    loud: Annotated[bool, typer.Option("--loud", help="An option of its own.")] = False,
) -> None:
    """End as told."""
    match how:
        case "dataset-error":
            raise DatasetError("grid/labels.parquet: row 3, score: \x1b[31m[bold]7 is not in [0, 1]")
        case "usage-error":
            raise UsageError("no policy named 'x'")
        case "interrupt":
            raise KeyboardInterrupt
        case "disk-full":
            raise OSError(errno.ENOSPC, "No space left on device", "cells/a.parquet")
        case "invalid-cells":
            raise typer.Exit(3)
        case "bug":
            raise ZeroDivisionError
    typer.echo("done")
