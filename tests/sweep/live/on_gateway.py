"""Work on a cell's servers behind a gateway, and what stands there, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx

from rbx.config.base import parse
from rbx.config.endpoints import Endpoints, InstanceEndpoint
from rbx.config.experiment import Experiment
from rbx.config.policy import SinglePolicy
from rbx.config.pool import Pool
from rbx.heads.bundle import Bundle
from rbx.sweep.live.opening import opened
from rbx.sweep.live.target import LiveTarget
from tests.serve.mock.pools import small_pool
from tests.sweep.live.gateways import Deployment

T = TypeVar("T")


def experiment(target: Mapping[str, Any], **changes: Any) -> Experiment:
    return parse(
        Experiment,
        {
            "name": "live",
            "grid": "grid",
            "bundle": "bundle",
            "pool": "pool.yaml",
            "engine": "live",
            "live": {"target": dict(target)},
            "workload": {"rates_per_s": [5.0], "max_output_tokens": 77, "slo": {"ttft_s": 0.5}},
            "policies": [{"kind": "external"}],
            **changes,
        },
        where="test",
    )


def on(
    target: Mapping[str, Any],
    work: Callable[[LiveTarget], Awaitable[T]],
    *,
    pool: Pool | None = None,
    bundle: Bundle | None = None,
    ready_s: float = 10.0,
    note: Path | None = None,
    **changes: Any,
) -> T:
    """What ``work`` gives on an opened target."""
    meant = experiment(target, **changes)
    assert meant.live is not None

    async def run() -> T:
        live = meant.live
        assert live is not None
        async with opened(
            live, meant, pool or small_pool(), bundle, Path("logs"), ready_s=ready_s, note=note
        ) as servers:
            return await work(servers)

    return asyncio.run(run())


def written(place: Deployment, folder: Path, **changes: InstanceEndpoint) -> str:
    """An endpoints file; ``changes`` replace the servers of instances, ``twin_0`` for ``twin/0``."""
    instances = dict(place.mock.endpoints.instances)
    instances |= {name.replace("_", "/"): endpoint for name, endpoint in changes.items()}
    path = folder / "endpoints.yaml"
    path.write_text(Endpoints(instances=instances).as_yaml(), encoding="utf-8")
    return str(path)


def config_of(place: Deployment) -> dict[str, Any]:
    shown: dict[str, Any] = httpx.get(f"{place.url}/v1/config", trust_env=False).json()
    return shown


def install(policy: SinglePolicy) -> Callable[[LiveTarget], Awaitable[Any]]:
    async def work(servers: LiveTarget) -> Any:
        return await servers.install(policy)

    return work
