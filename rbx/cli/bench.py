"""``rbx bench``: what decisions cost on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Measure what decisions cost on this machine.")


@app.callback()
def bench() -> None:
    """Measure what decisions cost on this machine."""


@app.command("decision-cost")
def decision_cost(
    bundle: Annotated[Path, typer.Option(help="Bundle whose encoder and heads are timed.")],
    pool: Annotated[Path, typer.Option(help="Pool file to decide over.")],
    repeats: Annotated[int, typer.Option(min=3, help="Timed calls per size; the median counts.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="Print samples and fit as JSON.")] = False,
) -> None:
    """Time the encoder and the scoring path, and print them as ``scheduler.decision_cost``.

    Simulated results use constants, so that they never depend on how busy a machine is; put these
    figures into an experiment file to simulate a scheduler on this machine.
    """
    from dataclasses import asdict

    import yaml
    from rich.console import Console
    from rich.table import Table

    from rbx.config.pool import load_pool
    from rbx.heads.bundle import Bundle
    from rbx.sweep.measured_cost import measure_decision_cost

    loaded = Bundle.load(bundle)
    servers = load_pool(pool).value
    loaded.check_pool(servers)
    measured = measure_decision_cost(loaded, servers, repeats)
    if as_json:
        print(json.dumps({**asdict(measured), "cost": measured.cost.model_dump()}, indent=1))
        return
    table = Table("step", "size", "median", title=f"encoder {loaded.meta.encoder_name}, n = {repeats} each")
    for sample in measured.samples:
        unit = "tokens" if sample.what == "encode" else "requests"
        table.add_row(sample.what, f"{sample.size} {unit}", f"{1000 * sample.seconds:.3f} ms")
    Console(stderr=True).print(table)
    fragment = {"scheduler": {"decision_cost": measured.cost.model_dump()}}
    print(yaml.safe_dump(fragment, sort_keys=False), end="")
