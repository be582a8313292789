"""What ``rbx serve`` and ``rbx launch`` have in common: their options, and what they say of a gateway."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import socket

    from rbx.config.pool import Pool
    from rbx.heads.bundle import Bundle
    from rbx.serve.launch.serving import Scheduler, ServedGateway

BundleOption = Annotated[
    Path | None, typer.Option("--bundle", metavar="DIR", help="Trained heads, for policies that predict.")
]
PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="P",
        help="routebalance, bear, score, passthrough, ... or a mapping in YAML "
        "(default: routebalance with a bundle, else passthrough).",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="GATEWAY.yaml", help="The gateway's whole configuration instead."),
]
HostOption = Annotated[str, typer.Option("--host", help="Address to listen on.")]
PortOption = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 takes a free one.")
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token-env", metavar="NAME", help="Environment variable with the bearer token for /v1/config."
    ),
]
DrainOption = Annotated[
    float,
    typer.Option("--drain", metavar="S", min=0.0, max=86400.0, help="Seconds that answers get at the end."),
]


def config_token(host: str, variable: str | None) -> str | None:
    """The token; raises ``UsageError`` off loopback without one, ``ConfigError`` where it is not set."""
    from rbx.errors import ConfigError, UsageError
    from rbx.serve.launch.ports import is_loopback

    if variable is None:
        if is_loopback(host):
            return None
        raise UsageError(
            f"--host {host} can be reached from elsewhere: guard /v1/config by --token-env NAME, the "
            "environment variable that holds its bearer token"
        )
    token = os.environ.get(variable, "").strip()
    if not token or not token.isascii() or not token.isprintable():
        raise ConfigError(f"--token-env {variable}: it is not set, or no header can carry what it holds")
    return token


def chosen_gateway(policy: str | None, config: Path | None, has_bundle: bool) -> dict[str, Any]:
    """The gateway file of the options, not checked yet; raises ``UsageError`` where both are given."""
    from rbx.config.base import read_yaml
    from rbx.config.short_policy import default_policy, gateway_document
    from rbx.errors import UsageError

    if config is None:
        return gateway_document(policy or default_policy(has_bundle))
    if policy is not None:
        raise UsageError("--policy and --config both say what to decide by; give one of them")
    return read_yaml(config)


def loaded_bundle(path: Path | None, pool: Pool) -> Bundle | None:
    """The heads, checked against the pool; raises ``BundleError``."""
    from rbx.heads.bundle import Bundle

    if path is None:
        return None
    bundle = Bundle.load(path)
    bundle.check_pool(pool)
    return bundle


def gateway_lines(scheduler: Scheduler, served: ServedGateway) -> list[str]:
    """Where it listens, what it serves, and by which version of its configuration."""
    gateway = served.gateway
    version = gateway.versions.current
    return [
        f"serving pool {scheduler.pool.name} on {served.url}/v1",
        f"  policy    {version.policy.label}, configuration {version.label}",
        f"  models    {', '.join(gateway.models)}",
        f"  instances {served.answering} of {len(gateway.pool.instances)} answer; see {served.url}/readyz",
        "Ctrl-C lets answers under way end, a second one does not",
    ]


def note_compilation() -> None:
    """Say why the first start on a machine takes long."""
    from rbx.compiled import is_cold

    if is_cold():
        typer.echo("compiling the engine, half a minute the first time", err=True)


def listening_socket(host: str, port: int) -> socket.socket:
    """The gateway's port, taken before anything else is started; raises ``ServerError`` where it is taken."""
    from rbx.serve.launch.ports import bound

    return bound(host, port)
