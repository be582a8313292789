"""``rbx bench``: what decisions cost on this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rbx.errors import RbxError, UsageError

if TYPE_CHECKING:
    from rbx.sweep.measured_scoring import MeasuredScoring

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


@app.command("scoring-cost")
def scoring_cost(
    bundle: Annotated[Path, typer.Option(help="Bundle whose encoder, heads and routers are timed.")],
    pool: Annotated[Path, typer.Option(help="Pool file of the bundle.")],
    routers: Annotated[
        list[str] | None,
        typer.Option("--router", metavar="NAME", help="A router of the bundle, or knn; default all."),
    ] = None,
    workers: Annotated[int, typer.Option(min=2, max=256, help="Calls side by side, for concurrent.")] = 8,
    repeats: Annotated[int, typer.Option(min=3, help="Timed calls per size; the quickest counts.")] = 15,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the costs by router there, as YAML.")
    ] = None,
    most_error: Annotated[
        float, typer.Option(min=0.0, help="Refuse costs that miss a measured call by a larger share.")
    ] = 0.5,
    as_json: Annotated[bool, typer.Option("--json", help="Print samples and fits as JSON.")] = False,
) -> None:
    """Time each router's own scoring, and print it as ``scheduler.scoring_cost``.

    A call is what a gateway makes of it: encoder, heads and router, for one prompt and for many. Put the
    figures into an experiment file, or hand them over: --set scheduler.scoring_cost="$(cat FILE)".
    Exit code 1, and no file, where the costs do not fit what was timed: other work disturbed it.
    """
    from dataclasses import asdict

    import yaml
    from rich.console import Console
    from rich.table import Table

    from rbx.config.pool import load_pool
    from rbx.config.references import SIMULATED_ONLY
    from rbx.durable import write_text
    from rbx.heads.bundle import Bundle
    from rbx.sweep.measured_scoring import measure_scoring

    loaded = Bundle.load(bundle)
    loaded.check_pool(load_pool(pool).value)
    for name in ("omni-router", "port"):
        if name in (routers or ()):
            raise UsageError(f"--router {name}: it asks the bundle's own heads, as knn does; time knn")
    untimed = [name for name in loaded.routers if name in SIMULATED_ONLY]
    if untimed and not routers:
        typer.echo(f"not timed, as no gateway asks them: {', '.join(untimed)}", err=True)
    names = routers or ["knn", *(name for name in loaded.routers if name not in SIMULATED_ONLY)]
    heads = [(name, None if name == "knn" else loaded.router(name)) for name in names]
    measured = [measure_scoring(loaded, name, head, workers=workers, repeats=repeats) for name, head in heads]
    costs = {each.router: each.cost.model_dump() for each in measured}
    poor = [each for each in measured if each.largest_error > most_error]
    if out is not None and not poor:
        write_text(yaml.safe_dump(costs, sort_keys=False), out)
    if as_json:
        print(json.dumps([{**asdict(each), "cost": costs[each.router]} for each in measured], indent=1))
        _refuse(poor)
        return
    title = f"encoder {loaded.meta.encoder_name}, n = {repeats} each, {workers} workers"
    table = Table("router", "prompts a call", "tokens", "quickest", title=title)
    for each in measured:
        for sample in each.samples:
            tokens = f"{min(sample.tokens)} to {max(sample.tokens)}"
            table.add_row(each.router, str(len(sample.tokens)), tokens, f"{1000 * sample.seconds:.3f} ms")
        table.add_row(
            each.router, "", "", f"costs off by ≤ {100 * each.largest_error:.0f} %", end_section=True
        )
    Console(stderr=True).print(table)
    print(yaml.safe_dump({"scheduler": {"scoring_cost": costs}}, sort_keys=False), end="")
    _refuse(poor)


def _refuse(poor: Sequence[MeasuredScoring]) -> None:
    if poor:
        worst = max(poor, key=lambda each: each.largest_error)
        raise RbxError(
            f"the costs of {', '.join(each.router for each in poor)} do not fit what was timed: those of "
            f"{worst.router} miss a call by {100 * worst.largest_error:.0f} %. Other work on this machine "
            "disturbs such short timings: run it again when there is none, with more --repeats, or take the "
            "costs as they are by --most-error"
        )
