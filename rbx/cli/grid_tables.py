"""Tables and lines about grids, safe to print whatever stands in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rbx.cli.main import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

LEFT = ("model", "metric", "line", "figure", "origin", "source", "judge")


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Lines as they are, not wrapped."""
    for line in lines:
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def titled(name: str, synthetic: bool, what: str) -> str:
    """A table's title, which says of a synthetic grid that it is one."""
    return f"{name} (SYNTHETIC): {what}" if synthetic else f"{name}: {what}"


def grid_table(title: str, headings: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> Table:
    """Names to the left, figures to the right."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), title_justify="left")
    for heading in headings:
        left = heading in LEFT
        table.add_column(heading, justify="left" if left else "right", no_wrap=left, overflow="fold")
    for row in rows:
        table.add_row(*(escape(printable(str(cell))) for cell in row))
    return table


def decimal(value: float | None) -> str:
    """Three decimals."""
    return "–" if value is None else f"{value:.3f}"


def percent(value: float | None) -> str:
    """One decimal."""
    return "–" if value is None else f"{value:.1%}"


def whole(value: float | None) -> str:
    """No decimals."""
    return "–" if value is None else f"{value:,.0f}"
