"""The launch file: how the instances of a pool are brought up, and what decides in front of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from rbx.config.accelerators import ANY, accelerator_type
from rbx.config.base import (
    Name,
    NonNegativeInt,
    PositiveFloat,
    StrictModel,
    Text,
    chosen_by,
)
from rbx.config.endpoint import EnvironmentName
from rbx.config.gateway import GatewayConfig
from rbx.config.pool import Pool, Tier
from rbx.config.ray_address import RayAddress
from rbx.errors import ConfigError

# What rbx sets itself; a second value would make it look for the servers elsewhere.
OURS = ("--host", "--port", "--served-model-name", "--uds", "--api-key", "--scheduler-cls", "--config")


def flag_name(word: str) -> str:
    """The flag that a word of a command line gives, as vLLM reads it: ``--a_b=1`` is ``--a-b``."""
    name = word.partition("=")[0]
    return name.replace("_", "-") if name.startswith("--") else name


def _not_ours(flags: tuple[str, ...]) -> tuple[str, ...]:
    if taken := sorted({flag_name(flag) for flag in flags} & set(OURS)):
        raise ValueError(f"{', '.join(taken)} is set by rbx itself; leave it out")
    return flags


Flags = Annotated[tuple[Text, ...], AfterValidator(_not_ours)]


class LocalTier(StrictModel):
    """How one instance of a tier is started: ``COMMAND serve MODEL FLAGS``.

    ``model`` is a path or a hub id, by default the tier's model; ``flags`` go to vLLM and stand above what
    the tier's limits say; ``gpus`` of one instance are the pool's unless given, 0 for a CPU.
    """

    model: Text | None = None
    flags: Flags = ()
    env: Mapping[EnvironmentName, str] = {}
    command: tuple[Text, ...] = Field(("vllm",), min_length=1)
    gpus: NonNegativeInt | None = None

    def gpus_of(self, tier: Tier) -> int:
        """Devices of one instance."""
        return tier.gpus_per_instance if self.gpus is None else self.gpus


class RayTier(LocalTier):
    """How one instance of a tier is started on a Ray cluster, and on which nodes it may be.

    ``accelerator`` is the accelerator type that a node must offer, ``any`` for whatever has the GPUs; by
    default that of the tier's ``gpu``, or none for an instance without GPUs. ``cpus`` is what Ray sets aside,
    and the OMP_NUM_THREADS that it sets. A relative ``command`` or ``model`` is the node's own.
    """

    accelerator: Text | None = None
    cpus: PositiveFloat = 1.0

    def accelerator_of(self, tier: Tier) -> str | None:
        """Ray's name of the accelerator, or None; raises ``ConfigError`` for a ``gpu`` that has none."""
        if self.accelerator is not None:
            return None if self.accelerator == ANY else self.accelerator
        return accelerator_type(tier.gpu, tier.name) if self.gpus_of(tier) else None


class AttachLauncher(StrictModel):
    """The instances run already; ``endpoints`` says where."""

    kind: Literal["attach"] = "attach"
    endpoints: Path


class LocalLauncher(StrictModel):
    """One vLLM process an instance on this machine.

    ``devices`` are handed out in the order of the pool's instances, by default all that ``nvidia-smi``
    lists. Servers listen on ``host``, which is also where their endpoints say they are: an address of this
    machine for a gateway elsewhere. With ``publish_state`` each server publishes its exact state, for which
    rbx must be installed beside vLLM.
    """

    kind: Literal["local"] = "local"
    tiers: Mapping[Name, LocalTier] = {}
    devices: tuple[NonNegativeInt | Text, ...] | None = None
    host: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$")] = "127.0.0.1"
    publish_state: bool = False
    grace_s: PositiveFloat = 20.0

    def tier(self, tier: Tier) -> LocalTier:
        """How ``tier`` is started."""
        return self.tiers.get(tier.name, LocalTier())


class RayLauncher(StrictModel):
    """One vLLM process an instance, each beside an actor on a node of a Ray cluster.

    ``address`` is ``auto`` (RAY_ADDRESS, else the cluster that this machine is part of), HOST:PORT of a
    cluster that this machine is part of, ray://HOST:PORT of one that it is not, or ``local`` for one on this
    machine alone that ends with the launch. Servers listen on their node's address in the cluster.
    ``place_s`` bounds the wait for nodes. Logs lie in ``log_folder`` on each node, by default in its user's
    cache.
    """

    kind: Literal["ray"] = "ray"
    address: RayAddress = "auto"
    tiers: Mapping[Name, RayTier] = {}
    place_s: PositiveFloat = 120.0
    log_folder: Path | None = None
    grace_s: PositiveFloat = 20.0

    def tier(self, tier: Tier) -> RayTier:
        """How ``tier`` is started."""
        return self.tiers.get(tier.name, RayTier())


class MockLauncher(StrictModel):
    """Simulated instances in one process: no GPU, no weights. See ``rbx mock-tier``."""

    kind: Literal["mock"] = "mock"
    time_scale: PositiveFloat = 1.0
    faults: Path | None = None
    seed: NonNegativeInt = 0


LauncherSpec = Annotated[
    AttachLauncher | LocalLauncher | MockLauncher | RayLauncher,
    chosen_by(
        "kind",
        {"attach": AttachLauncher, "local": LocalLauncher, "mock": MockLauncher, "ray": RayLauncher},
    ),
]


class Launch(StrictModel):
    """What ``rbx launch`` does. ``ready_s`` bounds the time until every instance answers.

    Without ``gateway`` the policy is the command line's. With ``keep_serving`` an instance that ends after
    all were ready is told and left out; else it ends everything.
    """

    pool: Path
    launcher: LauncherSpec = MockLauncher()
    bundle: Path | None = None
    gateway: GatewayConfig | None = None
    ready_s: PositiveFloat = 900.0
    keep_serving: bool = False

    def check(self, pool: Pool) -> None:
        """Raises ``ConfigError`` for tiers that the pool does not have, or that Ray can't place."""
        if isinstance(self.launcher, LocalLauncher | RayLauncher):
            known = [tier.name for tier in pool.tiers]
            if unknown := sorted(set(self.launcher.tiers) - set(known)):
                raise ConfigError(
                    f"launcher.tiers: pool {pool.name} has no tier {', '.join(unknown)}; "
                    f"it has {', '.join(known)}"
                )
        if isinstance(self.launcher, RayLauncher):
            for tier in pool.tiers:
                self.launcher.tier(tier).accelerator_of(tier)
