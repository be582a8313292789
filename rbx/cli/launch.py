"""``rbx launch``: a pool's tiers and the gateway in front of them, until Ctrl-C."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    from rbx.config.launch import Launch
    from rbx.config.pool import Pool
    from rbx.serve.launch.serving import Scheduler
    from rbx.serve.launch.tiers import Tiers


class Launcher(str, Enum):
    """How the tiers are brought up."""

    attach = "attach"
    local = "local"
    mock = "mock"
    ray = "ray"


def launch(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="A launch file (experiments/launch), or a pool file.")
    ],
    launcher: Annotated[
        Launcher | None,
        typer.Option(
            "--launcher", help="How tiers come up (default: the file's; attach with --endpoints; else mock)."
        ),
    ] = None,
    endpoints_path: Annotated[
        Path | None,
        typer.Option("--endpoints", metavar="FILE", help="Where instances answer that run already (YAML)."),
    ] = None,
    endpoints_out: Annotated[
        Path | None,
        typer.Option(
            "--endpoints-out", metavar="FILE", help="Write where each instance answers, once all do."
        ),
    ] = None,
    url_out: Annotated[
        Path | None,
        typer.Option("--url-out", metavar="FILE", help="Write the gateway's address, once it serves."),
    ] = None,
    gateway: Annotated[
        bool, typer.Option("--gateway/--no-gateway", help="The scheduler in front of the tiers.")
    ] = True,
    logs: Annotated[
        Path | None,
        typer.Option("--logs", metavar="DIR", help="Folder of logs (default: results/launch/POOL)."),
    ] = None,
    bundle_path: BundleOption = None,
    policy: PolicyOption = None,
    config: ConfigOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8200,
    token_env: TokenOption = None,
    drain_s: DrainOption = 30.0,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Override one key, such as launcher.time_scale=10; repeatable."
        ),
    ] = None,
) -> None:
    """Bring up a pool's tiers and serve them as one API; Ctrl-C ends all of it."""
    from rbx.cli.gateway_options import config_token, listening_socket, loaded_bundle, note_compilation
    from rbx.cli.stopped import leave_stopped
    from rbx.config.base import apply_overrides, parse
    from rbx.config.launch import Launch
    from rbx.config.pool import load_pool
    from rbx.errors import UsageError
    from rbx.serve.launch.serving import Scheduler

    token = config_token(host, token_env)
    if url_out is not None and not gateway:
        raise UsageError("--url-out is for the gateway's address, and --no-gateway leaves it out")
    document = _document(path)
    _with_launcher(document, launcher, endpoints_path)
    if bundle_path is not None:
        document["bundle"] = str(bundle_path)
    _with_gateway(document, policy, config)
    apply_overrides(document, overrides or [])
    plan = parse(Launch, document, where=str(path))
    pool = load_pool(plan.pool).value
    plan.check(pool)
    folder = logs or Path("results") / "launch" / pool.name
    if not gateway:
        up = _held_launch(plan, pool, None, folder, endpoints_out, None)
    else:
        chosen = _gateway_config(plan)
        bundle = loaded_bundle(plan.bundle, pool)
        with listening_socket(host, port) as sock:
            note_compilation()
            scheduler = Scheduler(pool, chosen, bundle, sock, drain_s, token)
            up = _held_launch(plan, pool, scheduler, folder, endpoints_out, url_out)
    if not up:
        leave_stopped("stopped before everything was up; nothing is left running")
    typer.echo("everything has ended")


def _document(path: Path) -> dict[str, Any]:
    """The launch file, or the one that a pool file stands for."""
    from rbx.config.base import read_yaml

    document = read_yaml(path)
    return {"pool": str(path)} if "tiers" in document else document


def _with_launcher(document: dict[str, Any], launcher: Launcher | None, endpoints: Path | None) -> None:
    from rbx.errors import UsageError

    if endpoints is not None:
        if launcher not in (None, Launcher.attach):
            raise UsageError("--endpoints is for servers that run already: --launcher attach")
        document["launcher"] = {"kind": "attach", "endpoints": str(endpoints)}
        return
    given = document.get("launcher")
    kind = given.get("kind") if isinstance(given, dict) else None
    if launcher is None:
        if given is None:
            document["launcher"] = {"kind": "mock"}
            typer.echo("no launcher is named: the instances are simulated (--launcher mock)")
    elif kind != launcher.value:
        document["launcher"] = {"kind": launcher.value}


def _with_gateway(document: dict[str, Any], policy: str | None, config: Path | None) -> None:
    from rbx.cli.gateway_options import chosen_gateway

    if policy is not None or config is not None or document.get("gateway") is None:
        document["gateway"] = chosen_gateway(policy, config, document.get("bundle") is not None)


def _gateway_config(plan: Launch) -> Any:
    from rbx.errors import ConfigError

    if plan.gateway is None:
        raise ConfigError("gateway: it is null; say what to decide by, or give --no-gateway")
    return plan.gateway


def _held_launch(
    plan: Launch,
    pool: Pool,
    scheduler: Scheduler | None,
    logs: Path,
    endpoints_out: Path | None,
    url_out: Path | None,
) -> bool:
    """The launch, alone in its folder of logs; one that starts no processes needs none."""
    from contextlib import nullcontext

    from rbx.durable import held
    from rbx.serve.event_loop import run_in_loop

    busy = "another launch keeps its logs and state here; end it, or give another folder with --logs"
    with nullcontext() if plan.launcher.kind == "attach" else held(logs, busy):
        return run_in_loop(_launch(plan, pool, scheduler, logs, endpoints_out, url_out))


async def _launch(
    plan: Launch,
    pool: Pool,
    scheduler: Scheduler | None,
    logs: Path,
    endpoints_out: Path | None,
    url_out: Path | None,
) -> bool:
    from rbx.cli.gateway_options import gateway_lines
    from rbx.cli.launch_board import Board
    from rbx.config.launch import RayLauncher
    from rbx.durable import write_text
    from rbx.serve.launch.session import Session
    from rbx.serve.launch.tiers import brought_up

    board = Board()
    if isinstance(plan.launcher, RayLauncher):
        board.told(f"asking the Ray cluster ({plan.launcher.address}) for {len(pool.instances)} places")

    async with brought_up(plan, pool, logs) as tiers:
        if tiers is None:
            return False
        session = Session(plan, pool, tiers, scheduler, endpoints_out)
        for line in (_begins(pool, tiers), *tiers.notes):
            board.told(line)

        def serving() -> None:
            if scheduler is not None and session.served is not None:
                for line in gateway_lines(scheduler, session.served):
                    board.told(line)
                if url_out is not None:
                    write_text(f"{session.served.url}\n", url_out)
            else:
                board.told("all instances are ready; Ctrl-C ends them")

        with board.following(session):
            return await session.run(board.told, serving)


def _begins(pool: Pool, tiers: Tiers) -> str:
    where = f", logs in {tiers.logs}" if tiers.logs else ""
    return f"{len(pool.instances)} instances of pool {pool.name} by {tiers.kind}{where}"
