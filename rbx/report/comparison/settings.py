"""What else differs between two sweeps: configuration, data, versions."""

from __future__ import annotations

from typing import Any, NamedTuple

from rbx.config.base import flatten

_KEPT = ("engine", "grid", "bundle", "pool", "capacity", "config", "versions", "revision", "host")
# Told elsewhere: policies by their labels, names at the top.
_LEFT_OUT = ("config.policies", "config.name", "pool.instances")


class Setting(NamedTuple):
    """A key of the manifests, and its value in both; empty where one lacks it."""

    key: str
    a: str
    b: str


def differing(a: dict[str, Any], b: dict[str, Any]) -> list[Setting]:
    """Keys of the two manifests whose values differ, in the order of A; those of B alone follow."""
    flat_a, flat_b = (
        flatten({key: manifest[key] for key in (*_KEPT, "labels_sha256") if manifest.get(key) is not None})
        for manifest in (a, b)
    )
    keys = [key for key in dict.fromkeys([*flat_a, *flat_b]) if key and not key.startswith(_LEFT_OUT)]
    return [
        Setting(key, str(flat_a.get(key, "")), str(flat_b.get(key, "")))
        for key in keys
        if flat_a.get(key) != flat_b.get(key)
    ]
