"""``rbx mock-tier``: a pool's instances as OpenAI-compatible servers, without GPUs or weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rbx.config.pool import Pool
    from rbx.serve.mock.serving import MockTier


def mock_tier(
    path: Annotated[
        Path, typer.Argument(metavar="POOL", help="A pool file, such as one of experiments/pools.")
    ],
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="BASE", min=0, max=65535, help="Port of the first instance; 0 takes free ones."
        ),
    ] = 8100,
    time_scale: Annotated[
        float, typer.Option("--time-scale", metavar="X", help="Virtual seconds that pass in a real one.")
    ] = 1.0,
    tiers: Annotated[
        list[str] | None,
        typer.Option("--tier", metavar="NAME", help="Serve this tier only; may be repeated."),
    ] = None,
    faults: Annotated[
        Path | None, typer.Option("--faults", metavar="FILE", help="What goes wrong, and when (YAML).")
    ] = None,
    endpoints_out: Annotated[
        Path | None,
        typer.Option("--endpoints-out", metavar="FILE", help="Write where each instance answers (YAML)."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of texts, lengths and faults.")] = 0,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override one key of the pool; may be repeated."),
    ] = None,
) -> None:
    """Serve a pool's instances with simulated timing until Ctrl-C."""
    import gc

    from rbx.compiled import is_cold
    from rbx.config.faults import load_faults
    from rbx.config.pool import load_pool
    from rbx.durable import write_text
    from rbx.serve.mock.serving import serve_mock

    pool = load_pool(path, overrides).value
    script = None if faults is None else load_faults(faults).value
    if is_cold():
        typer.echo("compiling the engine, half a minute the first time", err=True)
    with serve_mock(
        pool, time_scale=time_scale, base_port=port, faults=script, seed=seed, tiers=tiers or ()
    ) as served:
        if endpoints_out is not None:
            write_text(served.endpoints.as_yaml(), endpoints_out)
        _show(pool, served, time_scale, endpoints_out)
        gc.collect()
        gc.freeze()  # the compiler left objects whose collection would hold up tokens for tens of ms
        _wait()


def _show(pool: Pool, served: MockTier, time_scale: float, endpoints_out: Path | None) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    table = Table(title=escape(f"{pool.name}, {time_scale:g} x real time"), title_justify="left")
    for heading in ("instance", "model", "address"):
        table.add_column(heading, no_wrap=heading == "address")
    models = {instance.name: instance.tier.model for instance in pool.instances}
    for name, endpoint in served.endpoints.instances.items():
        table.add_row(escape(name), escape(models[name]), endpoint.url)
    console.print(table)
    console.print(f"faults: GET, PUT or DELETE {served.control_url}", soft_wrap=True)
    if endpoints_out is not None:
        console.print(escape(f"endpoints: {endpoints_out}"), soft_wrap=True)
    console.print("Ctrl-C ends it")


def _wait() -> None:
    """Until a signal asks for the end."""
    import threading
    from contextlib import suppress

    from rbx.ending import interrupt, on_ending

    with suppress(KeyboardInterrupt), on_ending(interrupt):
        threading.Event().wait()
