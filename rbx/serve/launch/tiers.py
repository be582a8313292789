"""The instances of a pool, however they are brought up."""

from __future__ import annotations

import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rbx.config.endpoints import InstanceEndpoint, load_endpoints
from rbx.config.launch import AttachLauncher, Launch, LocalLauncher, MockLauncher, RayLauncher
from rbx.config.pool import Pool
from rbx.errors import ConfigError, ServerError
from rbx.serve.launch.child import Child
from rbx.serve.launch.devices import CORES, assigned_cores, assigned_devices, local_cores
from rbx.serve.launch.ports import LOOPBACK, free_ports
from rbx.serve.launch.process import Process
from rbx.serve.launch.ray_server import RayServer
from rbx.serve.launch.ray_tiers import ray_servers
from rbx.serve.launch.vllm_command import vllm_command, vllm_environment
from rbx.serve.mock.listener import FAULTS_PATH, bind_all
from rbx.serve.plugin.state_file import private_directory

MOCK_GRACE_S = 5.0


@dataclass(frozen=True)
class Tiers:
    """What was brought up by the launcher ``kind``.

    ``endpoints`` says where each instance answers. ``children`` are processes of ours by name, ``owners``
    the name of the process behind each instance; both are empty where others run them. ``logs`` says where
    the children's output lies, ``notes`` what else the user should know.
    """

    kind: str
    endpoints: Mapping[str, InstanceEndpoint]
    children: Mapping[str, Process]
    owners: Mapping[str, str]
    logs: str
    notes: tuple[str, ...] = ()


@asynccontextmanager
async def brought_up(launch: Launch, pool: Pool, logs: Path) -> AsyncIterator[Tiers | None]:
    """Start the processes of every instance, or none; their output goes to the folder ``logs``, which
    the caller holds as long as they run, or to that of their nodes.

    What is started has ended before the block does, unless a fault is raised; then it ends with this
    process. None where a signal came before all had found their place. Raises ``ConfigError`` or
    ``ServerError`` for what can't be started.
    """
    spec = launch.launcher
    if isinstance(spec, RayLauncher):
        async with ray_servers(spec, pool) as servers:
            yield None if servers is None else _on_nodes(spec, servers)
    elif isinstance(spec, AttachLauncher):
        endpoints = load_endpoints(spec.endpoints).value
        endpoints.of(pool)
        yield Tiers(spec.kind, endpoints.instances, {}, {}, "")
    elif isinstance(spec, MockLauncher):
        yield _mock(spec, launch.pool, pool, logs)
    else:
        yield _local(spec, pool, logs)


def log_path(logs: Path, name: str) -> Path:
    """The log of a process, such as ``72b-a100x4-0.log``."""
    return logs / f"{name.replace('/', '-')}.log"


def _mock(spec: MockLauncher, path: Path, pool: Pool, logs: Path) -> Tiers:
    # The ports are chosen here, as the endpoints must be known before the servers have compiled.
    names = [instance.name for instance in pool.instances]
    base = _free_block(len(names) + 1)
    command = [sys.executable, "-m", "rbx", "mock-tier", str(path), "--port", str(base)]
    command += ["--time-scale", str(spec.time_scale), "--seed", str(spec.seed)]
    if spec.faults is not None:
        command += ["--faults", str(spec.faults)]
    child = Child("mock-tier", command, {}, log_path(logs, "mock-tier"), MOCK_GRACE_S)
    endpoints = {
        name: InstanceEndpoint(url=f"http://{LOOPBACK}:{base + k}/v1") for k, name in enumerate(names)
    }
    notes = [f"faults: GET, PUT or DELETE http://{LOOPBACK}:{base + len(names)}{FAULTS_PATH}"]
    if spec.time_scale != 1.0:
        notes.append(
            f"time_scale {spec.time_scale:g}: predicted latencies are in the servers' own seconds, "
            f"{spec.time_scale:g} of them to a real one; targets and measured times are real"
        )
    owners = dict.fromkeys(names, child.name)
    return Tiers(spec.kind, endpoints, {child.name: child}, owners, str(logs), tuple(notes))


def _local(spec: LocalLauncher, pool: Pool, logs: Path) -> Tiers:
    _check_commands(spec, pool)
    devices = assigned_devices(pool, spec)
    cores = assigned_cores(pool, spec, local_cores())
    endpoints: dict[str, InstanceEndpoint] = {}
    children: dict[str, Child] = {}
    on_gpus = any(devices)
    for instance, port, mine, bound in zip(
        pool.instances, free_ports(len(devices), spec.host), devices, cores, strict=True
    ):
        how = spec.tier(instance.tier)
        state = None
        if spec.publish_state:
            state = private_directory(logs.resolve() / "state" / instance.name.replace("/", "-"))
        endpoints[instance.name] = InstanceEndpoint(url=f"http://{spec.host}:{port}/v1", state=state)
        command = vllm_command(instance.tier, how, spec.host, port, spec.publish_state)
        variables = vllm_environment(how, mine if on_gpus else None, state)
        if bound is not None:
            variables[CORES] = bound
        log = log_path(logs, instance.name)
        children[instance.name] = Child(instance.name, command, variables, log, spec.grace_s)
    return Tiers(spec.kind, endpoints, children, {name: name for name in children}, str(logs))


def _on_nodes(spec: RayLauncher, servers: Mapping[str, RayServer]) -> Tiers:
    endpoints = {name: InstanceEndpoint(url=server.url) for name, server in servers.items()}
    folders = " or ".join(sorted({str(server.folder) for server in servers.values()}))
    return Tiers(spec.kind, endpoints, servers, {name: name for name in servers}, f"{folders} of each node")


def _check_commands(spec: LocalLauncher, pool: Pool) -> None:
    for tier in pool.tiers:
        program = spec.tier(tier).command[0]
        if shutil.which(program) is None:
            raise ConfigError(
                f"tier {tier.name}: there is no program {program!r}; install vLLM (pip install vllm), or "
                f"name its command in the launch file: launcher.tiers.{tier.name}.command"
            )


def _free_block(count: int) -> int:
    """The first of ``count`` ports in a row that are free now."""
    for _ in range(100):
        (base,) = free_ports(1)
        if base + count > 65_535:
            continue
        try:
            sockets = bind_all(range(base, base + count))
        except ServerError:
            continue
        for sock in sockets:
            sock.close()
        return base
    raise ServerError(f"no {count} free ports in a row; end some of the programs that listen here")
