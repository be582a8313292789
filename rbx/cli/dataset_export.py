"""``rbx dataset export``: a grid as a data set for the Hugging Face hub."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from rbx.cli.grid_tables import print_lines


class Schema(str, Enum):
    """How the rows look."""

    TABLES = "tables"
    ROUTEBALANCE = "routebalance"


def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A grid, such as datasets/quickstart.")],
    hf: Annotated[Path, typer.Option(metavar="OUT", help="Directory to write, in the layout of the hub.")],
    schema: Annotated[
        Schema, typer.Option(help="A row per prompt and model, or RouteBalance's rows per prompt.")
    ] = Schema.TABLES,
    force: Annotated[bool, typer.Option("--force", help="Replace another export in OUT.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write a grid as shards by split with a data set card, which `datasets.load_dataset` reads."""
    from rich.console import Console

    from rbx.grid.export import export_grid

    exported = export_grid(folder, hf, schema.value, force=force)
    if as_json:
        print(json.dumps({"folder": str(hf), **exported._asdict()}))
        return
    counts = ", ".join(f"{count:,} {split}" for split, count in exported.prompts.items())
    lines = [
        f"{hf}" + ("" if exported.written else " (unchanged)"),
        f"  prompts  {counts}",
        *(f"  {name}" for name in exported.files),
        f"next: hf upload OWNER/NAME {hf} --repo-type dataset",
    ]
    print_lines(Console(), lines)
