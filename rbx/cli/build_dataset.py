"""``rbx build-dataset``: make a grid from a spec file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rbx.cli.main import printable

if TYPE_CHECKING:
    from rbx.grid.build import Built


def build_dataset(
    spec: Annotated[
        Path, typer.Argument(metavar="SPEC", help="Spec file, such as one of experiments/datasets.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Directory of the grid; default datasets/NAME.", show_default=False)
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Override a key: --set source.path=DIR (repeatable)."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace another grid in that directory.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
) -> None:
    """Build a labelled grid: prompts, each model's answers, and their scores.

    The directory appears whole or not at all; the same spec gives the same bytes.
    """
    from rich.console import Console

    from rbx.grid.build import build_grid
    from rbx.grid.spec import load_spec

    loaded = load_spec(spec, overrides)
    folder = out or Path("datasets") / loaded.value.name
    with Console(stderr=True).status(f"building {loaded.value.name}") as status:
        built = build_grid(
            loaded,
            folder,
            lambda phase: status.update(f"building {loaded.value.name}: {phase}"),
            force=force,
        )
    if as_json:
        print(
            json.dumps(
                {"folder": str(folder), "written": built.written, **built.manifest.model_dump(mode="json")}
            )
        )
    else:
        _report(built, folder)


def _report(built: Built, folder: Path) -> None:
    from rich.console import Console

    manifest, counts = built.manifest, built.manifest.counts
    synthetic = " (synthetic)" if manifest.synthetic else ""
    share = f"{counts.labels_present:,} of {counts.labels:,} present"
    lines = [
        f"{manifest.name}{synthetic}: {folder}" + ("" if built.written else " (unchanged)"),
        f"  prompts     {counts.prompts:,} ({counts.train:,} train, {counts.test:,} test)",
        f"  models      {len(manifest.models)}: {', '.join(manifest.models)}",
        f"  labels      {share}, metrics {', '.join(manifest.metrics)}",
        f"  duplicates  {counts.duplicate_prompts:,} prompts dropped for an equal text, "
        f"{counts.disagreeing_duplicates:,} of them scored otherwise",
        f"  input       tokens {manifest.input_tokens_origin}",
        f"  digest      {manifest.digest}",
        f"next: rbx dataset show {folder}",
    ]
    console = Console()
    for line in lines:
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
