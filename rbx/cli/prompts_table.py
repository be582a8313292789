"""The prompts that a build has collected: where they come from, and the first of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rbx.cli.grid_tables import grid_table, print_lines

if TYPE_CHECKING:
    from rbx.label.prompts.collect import Collected

SHOWN_PROMPTS = 3
SHOWN_CHARACTERS = 160


def print_collected(collected: Collected) -> None:
    """Counts by source with what was left out and why, then a few prompts."""
    from rich.console import Console

    console = Console()
    told = collected.provenance["prompts"]
    rows = [
        (
            name,
            f"{each['rows']:,}",
            ", ".join(f"{count:,} {rule}" for rule, count in each["dropped"].items()) or "–",
            f"{each['available']:,}",
            f"{each['taken']:,}",
            each["licence"],
        )
        for name, each in told.items()
    ]
    title = f"{len(collected.questions):,} prompts, tokens {collected.provenance['input_tokens']}"
    headings = ("source", "rows", "left out", "available", "taken", "licence")
    console.print(grid_table(title, headings, rows))
    print_lines(console, (_shown(each.prompt) for each in collected.questions[:SHOWN_PROMPTS]))


def _shown(prompt: str) -> str:
    line = " ".join(prompt.split())
    return f"  {line[:SHOWN_CHARACTERS]}…" if len(line) > SHOWN_CHARACTERS else f"  {line}"
