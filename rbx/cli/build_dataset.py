"""``rbx build-dataset``: make a grid from a spec file."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rbx.config.base import Loaded
    from rbx.grid.build import Built
    from rbx.grid.spec import DatasetSpec
    from rbx.label.pipeline import LabelOptions


class Until(str, Enum):
    """The stage of source ``label`` to end after."""

    PROMPTS = "prompts"
    ANSWERS = "answers"
    GRID = "grid"


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
    judges: Annotated[
        list[str] | None,
        typer.Option("--judge", metavar="NAME", help="Only this judge of the spec (repeatable)."),
    ] = None,
    until: Annotated[
        Until, typer.Option(help="End after collecting prompts, or after asking the models.")
    ] = Until.GRID,
    offline_vllm: Annotated[
        bool, typer.Option("--offline-vllm", help="Ask local weights by vLLM's batch API, no servers.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Ask again what failed in an earlier run.")
    ] = False,
    work: Annotated[
        Path | None,
        typer.Option(
            "--work",
            metavar="DIR",
            help="Where prompts, answers and scores so far are kept; default beside the grid, as NAME.work.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
) -> None:
    """Build a labelled grid: prompts, each model's answers, and their scores.

    The directory appears whole or not at all; the same spec gives the same bytes. Source label asks live
    models and judges: each answer and score is kept as it lands, and the same command goes on where an
    earlier run was stopped. Ctrl-C once finishes what is under way, twice leaves it.
    """
    from rbx.cli.built_grid import print_built
    from rbx.config.labelling import LabelSource
    from rbx.grid.placement import true_place
    from rbx.grid.spec import load_spec

    loaded = load_spec(spec, overrides)
    folder = out or Path("datasets") / loaded.value.name
    true_place(folder)  # refuses what can't be written before anything is asked
    asked = bool(judges or work or offline_vllm or retry_failed) or until is not Until.GRID
    if isinstance(loaded.value.source, LabelSource) or asked:
        from rbx.label.pipeline import LabelOptions

        options = LabelOptions(until.value, tuple(judges or ()), offline_vllm, retry_failed, force, work)
        built = _labelled(loaded, folder, options)
    else:
        built = _read(loaded, folder, force=force)
    if built is None:
        return
    if as_json:
        print(
            json.dumps(
                {"folder": str(folder), "written": built.written, **built.manifest.model_dump(mode="json")}
            )
        )
    else:
        print_built(built, folder)


def _read(loaded: Loaded[DatasetSpec], folder: Path, *, force: bool) -> Built:
    from rich.console import Console

    from rbx.grid.build import build_grid

    name = loaded.value.name
    with Console(stderr=True).status(f"building {name}") as status:
        return build_grid(
            loaded, folder, lambda phase: status.update(f"building {name}: {phase}"), force=force
        )


def _labelled(loaded: Loaded[DatasetSpec], folder: Path, options: LabelOptions) -> Built | None:
    """The grid, or None where the run was to end before it; exit code 130 after Ctrl-C."""
    from rbx.cli.label_progress import shown_progress
    from rbx.cli.prompts_table import print_collected
    from rbx.cli.stopped import leave_stopped
    from rbx.label.pipeline import label_grid

    with shown_progress() as progress:
        outcome = label_grid(loaded, folder, options, progress)
    kept = outcome.workspace.folder
    if outcome.interrupted:
        leave_stopped(f"stopped; what was done is in {kept}: the same command goes on")
    if outcome.built is None:
        print_collected(outcome.collected)
        print(f"the {options.until} are in {kept}")
    return outcome.built
