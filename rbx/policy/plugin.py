"""Policies of other packages, found by their entry points (group ``rbx.policies``; docs/cookbook.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from rbx.compiled import sources_digest
from rbx.errors import ConfigError
from rbx.policy.guarded import GuardedPolicy, GuardedRouter, guarded, sealed
from rbx.policy.pool_state import PoolShape

GROUP = "rbx.policies"


@dataclass(frozen=True)
class PluginInputs:
    """What a plug-in is made from: all that it may know before the first request.

    ``options`` as they stand in the file, ``models`` by name in the order of every (…, M) array, ``shape`` of
    the pool's instances, and ``rng``, its own source of chance: nothing else may be random.
    """

    options: Mapping[str, Any]
    models: tuple[str, ...]
    shape: PoolShape
    rng: np.random.Generator


def made_by_plugin(name: str, inputs: PluginInputs) -> GuardedPolicy | GuardedRouter:
    """The policy or the router that plug-in ``name`` makes of ``inputs``.

    Raises ``ConfigError`` where it is not installed, fails, or makes something else.
    """
    entry = _entry_point(name)
    where = f"policy plug-in {name} ({_offered_by(entry)})"
    factory = guarded(f"{where} can't be loaded", entry.load)
    given = replace(inputs, shape=sealed(inputs.shape))
    made = guarded(f"{where} refused its options or the pool", lambda: factory(given))
    if callable(getattr(made, "assign", None)):
        return GuardedPolicy(where, made, inputs.shape)
    if callable(getattr(made, "choose", None)):
        return GuardedRouter(where, made, len(inputs.models))
    raise ConfigError(
        f"{where} made a {type(made).__name__}, which is neither a policy (assign) nor a router (choose); "
        "see docs/cookbook.md"
    )


def plugin_identity(name: str) -> dict[str, str]:
    """What a cell decided by a plug-in depends on: distribution, version, and the sources themselves.

    The sources are part of it since whoever writes a policy changes it more often than its version.
    """
    return _identity(_entry_point(name))


def installed_plugins() -> dict[str, dict[str, str]]:
    """Identity of every plug-in of this environment, by name and whose it is."""
    entries = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    return {f"{entry.name} ({_offered_by(entry)})": _identity(entry) for entry in entries}


def _identity(entry: EntryPoint) -> dict[str, str]:
    distribution, version = ("", "") if entry.dist is None else (entry.dist.name, entry.dist.version)
    return {
        "distribution": distribution,
        "version": version,
        "entry_point": entry.value,
        "sources": _sources(entry),
    }


def _entry_point(name: str) -> EntryPoint:
    known = entry_points(group=GROUP)
    found = [entry for entry in known if entry.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        offered = ", ".join(_offered_by(entry) for entry in found)
        raise ConfigError(f"policy plug-in {name} is offered by {offered}; uninstall all but one")
    there = ", ".join(sorted(f"{entry.name} ({_offered_by(entry)})" for entry in known)) or "none"
    raise ConfigError(
        f"policy plug-in {name} is not installed; installed here: {there}. Install the package that offers "
        f"it (an entry point {name} of the group {GROUP}) into this environment: pip install PACKAGE; "
        "docs/cookbook.md tells how one is made"
    )


def _offered_by(entry: EntryPoint) -> str:
    return entry.value if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def _sources(entry: EntryPoint) -> str:
    """Digest of the package, or of the module where it is a single file; empty for what has no file."""
    spec = find_spec(entry.module.partition(".")[0])
    if spec is None:
        return ""
    if spec.submodule_search_locations:
        return " ".join(sources_digest(Path(folder)) for folder in sorted(spec.submodule_search_locations))
    if spec.origin is None or not Path(spec.origin).is_file():
        return ""
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()[:16]
