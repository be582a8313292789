"""Which GPUs, or which cores, of this machine each instance gets."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from rbx.config.launch import LocalLauncher, LocalTier, flag_name
from rbx.config.pool import Pool, Tier
from rbx.errors import ConfigError

_ASK_S = 30.0
CORES = "VLLM_CPU_OMP_THREADS_BIND"  # of vLLM's CPU build: the cores of its worker's threads
_WORKERS = {"--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp", "--data-parallel-size", "-dp"}


def assigned_devices(pool: Pool, launcher: LocalLauncher) -> tuple[tuple[str, ...], ...]:
    """The devices of each instance in the pool's order; none for those on a CPU.

    Raises ``ConfigError`` where there are too few.
    """
    wanted = [launcher.tier(instance.tier).gpus_of(instance.tier) for instance in pool.instances]
    if not sum(wanted):
        return ((),) * len(wanted)
    given = launcher.devices
    devices = local_devices() if given is None else tuple(str(device) for device in given)
    if sum(wanted) > len(devices):
        has = f"has {len(devices)}" if given is None else f"is given {len(devices)} (launcher.devices)"
        raise ConfigError(
            f"pool {pool.name} needs {sum(wanted)} GPUs and this machine {has}; launch fewer instances here "
            "and attach to the others, or give launcher.tiers.TIER.gpus: 0 for tiers that run on a CPU"
        )
    left = iter(devices)
    return tuple(tuple(next(left) for _ in range(count)) for count in wanted)


def local_devices() -> tuple[str, ...]:
    """Those in ``CUDA_VISIBLE_DEVICES``, else all that ``nvidia-smi`` lists."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return tuple(part.strip() for part in visible.split(",") if part.strip())
    command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(done.stdout.split())


def assigned_cores(pool: Pool, launcher: LocalLauncher, cores: Sequence[int]) -> tuple[str | None, ...]:
    """What ``CORES`` says for each instance in the pool's order, such as ``"0,2,4"``; None: leave vLLM alone.

    Every server of vLLM's CPU build takes all cores but the last, and its worker polls without rest:
    several on one machine stop each other for minutes. So those without GPUs share ``cores`` evenly, less the
    last one where there are more cores than servers. Left alone is a server that is the only one, whose tier
    sets ``CORES`` or whose flags ask for several workers.
    """
    sharers = [
        instance.index
        for instance in pool.instances
        if _takes_cores(instance.tier, launcher.tier(instance.tier))
    ]
    if len(sharers) < 2 or not cores:
        return (None,) * len(pool.instances)
    shared = cores[:-1] if len(cores) > len(sharers) else cores
    parts = {index: _part(shared, place, len(sharers)) for place, index in enumerate(sharers)}
    return tuple(parts.get(instance.index) for instance in pool.instances)


def local_cores() -> tuple[int, ...]:
    """One thread of every core that this process may use.

    None where the system does not tell, or where the environment sets ``CORES`` for every server.
    """
    if CORES in os.environ or not hasattr(os, "sched_getaffinity"):
        return ()
    first: dict[str, int] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        first.setdefault(siblings.read_text(encoding="ascii") if siblings.exists() else str(cpu), cpu)
    return tuple(first.values())


def _takes_cores(tier: Tier, how: LocalTier) -> bool:
    return not how.gpus_of(tier) and CORES not in how.env and not _WORKERS & {flag_name(f) for f in how.flags}


def _part(cores: Sequence[int], place: int, servers: int) -> str:
    """An even part of the cores; where there are too few, one that others have as well."""
    if len(cores) < servers:
        return str(cores[place % len(cores)])
    first, end = (len(cores) * k // servers for k in (place, place + 1))
    return ",".join(map(str, cores[first:end]))
