"""Why a cluster has no place for a tier, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rbx.config.launch import RayLauncher, RayTier
from rbx.config.pool import Instance, Pool, Tier

_TYPE = "accelerator_type:"
_SHOWN_NODES = 20


def unplaced(ray: Any, spec: RayLauncher, pool: Pool, lacking: Sequence[Instance]) -> str:
    """What ``lacking`` needs, tier by tier, and what the nodes of the cluster have."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    lines = [
        f"{len(lacking)} of {len(pool.instances)} instances have found no place in the Ray cluster within "
        f"{spec.place_s:g} s:"
    ]
    for tier in pool.tiers:
        count = sum(instance.tier is tier for instance in lacking)
        if count:
            how = spec.tier(tier)
            fits = any(_fits(node["Resources"], how, tier) for node in nodes)
            why = "those that have it are taken, or slow to start a worker" if fits else "no node has that"
            lines.append(
                f"  tier {tier.name}: {count} of {tier.instances} instances lack a node with "
                f"{_needs(how, tier)}; {why}"
            )
    lines.append("the cluster has:")
    lines += [f"  {node['NodeManagerAddress']}: {_has(node['Resources'])}" for node in nodes[:_SHOWN_NODES]]
    if len(nodes) > _SHOWN_NODES:
        lines.append(f"  and {len(nodes) - _SHOWN_NODES} nodes more")
    lines.append(f"of which are free: {_has(ray.available_resources())}")
    lines.append(
        "start nodes that fit, or correct instances in the pool, or accelerator, gpus and cpus of "
        "launcher.tiers; launcher.place_s is how long rbx waits"
    )
    return "\n".join(lines)


def _demand(how: RayTier, tier: Tier) -> dict[str, float]:
    demand = {"CPU": how.cpus, "GPU": float(how.gpus_of(tier))}
    accelerator = how.accelerator_of(tier)
    return demand if accelerator is None else {**demand, f"{_TYPE}{accelerator}": 0.001}


def _fits(resources: Mapping[str, float], how: RayTier, tier: Tier) -> bool:
    return all(resources.get(name, 0.0) >= least for name, least in _demand(how, tier).items())


def _needs(how: RayTier, tier: Tier) -> str:
    return ", ".join(_shown(name, number) for name, number in _demand(how, tier).items() if number)


def _has(resources: Mapping[str, float]) -> str:
    wanted = [name for name in sorted(resources) if name in ("CPU", "GPU") or name.startswith(_TYPE)]
    return ", ".join(_shown(name, resources[name]) for name in wanted) or "nothing"


def _shown(name: str, number: float) -> str:
    if name.startswith(_TYPE):
        return f"accelerator type {name.removeprefix(_TYPE)}"
    return f"{number:g} {name}"
