"""Which GPUs of this machine each instance gets."""

from __future__ import annotations

import os
import subprocess

from rbx.config.launch import LocalLauncher
from rbx.config.pool import Pool
from rbx.errors import ConfigError

_ASK_S = 30.0


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
