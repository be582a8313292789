"""How a command ends that Ctrl-C has stopped."""

from __future__ import annotations

import signal
from typing import NoReturn

import typer


def leave_stopped(message: str) -> NoReturn:
    """Say so on stderr and end with exit code 130; a further Ctrl-C finds nothing left to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    typer.echo(message, err=True)
    raise typer.Exit(130)
