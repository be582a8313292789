"""The instances of a pool on the nodes of a Ray cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import rbx
from rbx.config.launch import RayLauncher
from rbx.config.pool import Instance, Pool
from rbx.ending import on_ending_in_loop
from rbx.errors import ConfigError, ServerError
from rbx.ray_cluster import cause_of, connected
from rbx.serve.launch.ray_actor import Place, TierActor
from rbx.serve.launch.ray_placement import unplaced
from rbx.serve.launch.ray_server import RayServer
from rbx.serve.launch.vllm_command import vllm_command, vllm_environment

T = TypeVar("T")

_WORKERS = {
    # What is ours runs on the nodes too, whatever rbx they have.
    "py_modules": [str(Path(rbx.__file__).parent)],
    # A worker that ends would kill its children first, and so a guard before it has ended its server's group.
    "env_vars": {"RAY_kill_child_processes_on_worker_exit": "false"},
}


@asynccontextmanager
async def ray_servers(spec: RayLauncher, pool: Pool) -> AsyncIterator[dict[str, RayServer] | None]:
    """The server of each instance by name; None where a signal came before all were placed.

    They end with the block. Raises ``ServerError`` for what the cluster can't place within ``place_s``.
    """
    stop = asyncio.Event()
    with on_ending_in_loop(stop.set), connected(spec.address, _WORKERS) as ray:
        yield await _unless(stop, lambda: _started(ray, spec, pool))


async def _unless(stop: asyncio.Event, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
    stopping, working = asyncio.ensure_future(stop.wait()), asyncio.ensure_future(work())
    try:
        await asyncio.wait({stopping, working}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (stopping, working):
            task.cancel()
        await asyncio.gather(stopping, working, return_exceptions=True)


async def _started(ray: Any, spec: RayLauncher, pool: Pool) -> dict[str, RayServer]:
    actors = {instance.name: _actor(ray, spec, instance) for instance in pool.instances}
    places = await _places(ray, spec, pool, actors)
    _check_programs(spec, pool, places)
    servers = await asyncio.gather(
        *(
            _server(ray, spec, pool, instance, actors[instance.name], places[instance.name])
            for instance in pool.instances
        )
    )
    return {server.name: server for server in servers}


def _actor(ray: Any, spec: RayLauncher, instance: Instance) -> Any:
    how = spec.tier(instance.tier)
    return (
        ray.remote(TierActor)
        .options(
            num_cpus=how.cpus,
            num_gpus=how.gpus_of(instance.tier),
            accelerator_type=how.accelerator_of(instance.tier),
        )
        .remote()
    )


async def _places(ray: Any, spec: RayLauncher, pool: Pool, actors: Mapping[str, Any]) -> Mapping[str, Place]:
    asked = {
        instance.name: asyncio.wrap_future(
            actors[instance.name].place.remote(spec.tier(instance.tier).command[0]).future()
        )
        for instance in pool.instances
    }
    await asyncio.wait(asked.values(), timeout=spec.place_s, return_when=asyncio.FIRST_EXCEPTION)
    for name, answer in asked.items():
        if answer.done() and (error := answer.exception()) is not None:
            raise ServerError(f"{name}: Ray can't start its actor: {cause_of(error)}") from None
    lacking = [instance for instance in pool.instances if not asked[instance.name].done()]
    if lacking:
        raise ServerError(unplaced(ray, spec, pool, lacking))
    return {name: answer.result() for name, answer in asked.items()}


def _check_programs(spec: RayLauncher, pool: Pool, places: Mapping[str, Place]) -> None:
    for instance in pool.instances:
        if places[instance.name].missing:
            tier = instance.tier
            raise ConfigError(
                f"tier {tier.name}: there is no program {spec.tier(tier).command[0]!r} on node "
                f"{places[instance.name].host}; install vLLM on the cluster's nodes, or name its command in "
                f"the launch file: launcher.tiers.{tier.name}.command"
            )


async def _server(
    ray: Any, spec: RayLauncher, pool: Pool, instance: Instance, actor: Any, place: Place
) -> RayServer:
    how = spec.tier(instance.tier)
    command = vllm_command(instance.tier, how, place.host, place.port, publish_state=False)
    # Ray has told the actor its GPUs; without any, vLLM is not to find those of others.
    variables = vllm_environment(how, None if how.gpus_of(instance.tier) else (), None)
    log, fault = await actor.start.remote(
        instance.name, command, variables, spec.log_folder, pool.name, spec.grace_s
    )
    if fault:
        raise ServerError(f"{instance.name}: {log} on node {place.host} can't be written: {fault}")
    return RayServer(ray, instance.name, actor, place, log, spec.grace_s)
