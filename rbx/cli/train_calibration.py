"""``rbx train --calibrate``: how far off the latency predictions of a bundle are, measured into it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rbx.heads.calibration import Calibration


def calibrate_into(folder: Path, grid: Path, pool: Path, *, metric: str, seed: int, as_json: bool) -> None:
    """Load, measure, save, and tell the residuals by source and tier."""
    import dataclasses
    import json

    from rbx.cli.train_progress import shown_progress
    from rbx.config.pool import load_pool
    from rbx.grid.store import open_view
    from rbx.heads.bundle import Bundle
    from rbx.sweep.calibrate import calibrate

    bundle = Bundle.load(folder)
    view = open_view(grid, metric)
    with shown_progress() as progress:
        calibration = calibrate(bundle, view, load_pool(pool).value, seed, progress)
    dataclasses.replace(bundle, calibration=calibration).save(folder)
    if as_json:
        figures = {"bundle": str(folder), "digest": calibration.digest, "how": dict(calibration.how)}
        print(json.dumps({**figures, "residuals": _figures(calibration)}, allow_nan=False))
        return
    show_residuals(calibration)
    typer.echo(f"calibration written to {folder}")


def _figures(calibration: Calibration) -> list[dict[str, str | int | float]]:
    """One row for each kind of prediction, source and tier; seconds."""
    import numpy as np

    rows: list[dict[str, str | int | float]] = []
    for kind, by_source in (("ttft", calibration.ttft), ("tpot", calibration.tpot)):
        for source, residuals in by_source.items():
            for t, tier in enumerate(calibration.tiers):
                values = residuals.of_tier(t)
                p10, p50, p70, p90 = (float(q) for q in np.percentile(values, [10, 50, 70, 90]))
                of: dict[str, str | int | float] = {"of": kind, "source": source, "tier": tier}
                spread = {"p10_s": p10, "p50_s": p50, "p70_s": p70, "p90_s": p90}
                rows.append({**of, "n": len(values), **spread, "std_s": float(residuals.std_s[t])})
    return rows


def show_residuals(calibration: Calibration) -> None:
    """A table of residuals by prediction and tier, in milliseconds."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # On a narrow terminal words fold, so that no figure loses digits.
    table = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    table.add_column("prediction of", overflow="fold")
    table.add_column("tier", overflow="fold")
    for heading in ("n", "p10", "median", "p70", "p90", "σ"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in _figures(calibration):
        residuals = (_milliseconds(float(row[key]), "+") for key in ("p10_s", "p50_s", "p70_s", "p90_s"))
        what = Text(f"{str(row['of']).upper()} {row['source']}")
        table.add_row(
            what, Text(str(row["tier"])), str(row["n"]), *residuals, _milliseconds(float(row["std_s"]))
        )
    console = Console()
    console.print(table)
    console.print("actual − predicted of held-out requests, milliseconds", markup=False)


def _milliseconds(seconds: float, sign: str = "") -> str:
    """With a tenth where there are fewer than a thousand."""
    ms = 1e3 * seconds
    return format(ms, f"{sign}.{0 if abs(ms) >= 1e3 else 1}f")
