"""What a launch shows: a table that follows it in a terminal, lines elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rbx.serve.launch.session import Session

REFRESH_S = 0.5


class Board:
    """Lines as they come, above a table if the output is a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        """Write to ``console``, by default standard output."""
        self._console = Console() if console is None else console
        self.lines: list[str] = []

    def told(self, line: str) -> None:
        """One more line; it may quote a log."""
        from rbx.cli.main import printable

        if self._console.is_terminal:
            self._console.print(Text(printable(line)), soft_wrap=True)
        else:
            typer.echo(printable(line))

    @contextmanager
    def following(self, session: Session) -> Iterator[None]:
        """Show ``session`` until the block ends; to be entered in its loop."""
        if not self._console.is_terminal:
            yield
            return
        with Live(table(session), console=self._console, auto_refresh=False) as live:
            refreshing = asyncio.ensure_future(_refresh(live, session))
            try:
                yield
            finally:
                refreshing.cancel()
                live.update(Group(), refresh=True)


async def _refresh(live: Live, session: Session) -> None:
    while True:
        await asyncio.sleep(REFRESH_S)
        live.update(table(session), refresh=True)


def table(session: Session) -> Table:
    """Every instance now."""
    shown = Table(title=escape(session.pool.name), title_justify="left")
    for heading in ("instance", "launcher", "address", "state"):
        shown.add_column(heading, no_wrap=heading == "address")
    for heading in ("running", "waiting", "tokens/s"):
        shown.add_column(heading, justify="right")
    for name, state in session.states.items():
        load = session.loads.now[name]
        numbers = ("", "", "")
        if load is not None:
            rate = "" if load.tokens_per_s is None else f"{load.tokens_per_s:,.0f}"
            numbers = (str(load.running), str(load.waiting), rate)
        elif state == "ready":
            state = "silent"
        shown.add_row(escape(name), session.tiers.kind, session.tiers.endpoints[name].url, state, *numbers)
    return shown
