"""``rbx serve``: the scheduler as an OpenAI-compatible gateway in front of servers that run already."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rbx.cli.gateway_options import (
    BundleOption,
    ConfigOption,
    DrainOption,
    HostOption,
    PolicyOption,
    PortOption,
    TokenOption,
)

if TYPE_CHECKING:
    from rbx.config.endpoints import InstanceEndpoint
    from rbx.serve.launch.serving import Scheduler


def serve(
    pool_path: Annotated[
        Path, typer.Option("--pool", metavar="POOL", help="A pool file, such as one of experiments/pools.")
    ],
    endpoints_path: Annotated[
        Path, typer.Option("--endpoints", metavar="FILE", help="Where each instance answers (YAML).")
    ],
    bundle_path: BundleOption = None,
    policy: PolicyOption = None,
    config: ConfigOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8200,
    token_env: TokenOption = None,
    drain_s: DrainOption = 30.0,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override one key of the configuration; repeatable."),
    ] = None,
) -> None:
    """Route requests over a pool of running servers, until Ctrl-C."""
    from rbx.cli.gateway_options import (
        chosen_gateway,
        config_token,
        listening_socket,
        loaded_bundle,
        note_compilation,
    )
    from rbx.config.base import apply_overrides, parse
    from rbx.config.endpoints import load_endpoints
    from rbx.config.gateway import GatewayConfig
    from rbx.config.pool import load_pool
    from rbx.serve.event_loop import run_in_loop
    from rbx.serve.launch.serving import Scheduler

    token = config_token(host, token_env)
    pool = load_pool(pool_path).value
    endpoints = load_endpoints(endpoints_path).value.of(pool)
    document = chosen_gateway(policy, config, bundle_path is not None)
    apply_overrides(document, overrides or [])
    chosen = parse(GatewayConfig, document, where=str(config or "--policy"))
    bundle = loaded_bundle(bundle_path, pool)
    with listening_socket(host, port) as sock:
        note_compilation()
        run_in_loop(_serve(Scheduler(pool, chosen, bundle, sock, drain_s, token), endpoints))


async def _serve(scheduler: Scheduler, endpoints: tuple[InstanceEndpoint, ...]) -> None:
    from rbx.cli.gateway_options import gateway_lines
    from rbx.ending import on_ending_in_loop
    from rbx.serve.launch.serving import ServedGateway

    served = ServedGateway(scheduler, endpoints)

    def started() -> None:
        for line in gateway_lines(scheduler, served):
            typer.echo(line)

    with on_ending_in_loop(served.stop):
        await served.run(started)
    typer.echo("ended")
