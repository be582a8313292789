"""What a directory of results holds of an earlier plan that a new one does not take up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rbx.config.base import flatten
from rbx.sweep.plan import Plan
from rbx.sweep.store import SweepStore

_INDICES = re.compile(r"(\.\d+)+(\..*)?$")
_FILES = ("grid", "bundle", "pool")


class LeftBehind(NamedTuple):
    """How many finished cells of the earlier plan are in the new one no more, and which keys differ."""

    cells: int
    differing: tuple[str, ...]


def left_behind(plan: Plan, folder: Path) -> LeftBehind:
    """Of ``folder``, which may not be there yet; a sweep of another name is refused elsewhere.

    A key is that of the experiment file, without what stands inside a list of it; ``grid``, ``bundle`` and
    ``pool`` differ where their files do. Nothing is named where the code alone changed.
    """
    store, manifest = SweepStore(folder), plan.manifest
    if not (store.cells.is_dir() and (folder / "manifest.json").is_file()):
        return LeftBehind(0, ())
    earlier = store.read_manifest()
    planned = {cell.cell_id for cell in plan.cells}
    dropped = {cell["cell_id"] for cell in earlier.get("cells", ())} - planned
    finished = sum(store.summary_path(cell_id).is_file() for cell_id in dropped)
    if earlier.get("name") != manifest["name"] or not finished:
        return LeftBehind(0, ())
    files = [name for name in _FILES if _digest(earlier, name) != _digest(manifest, name)]
    keys = {*files, *_differing(earlier.get("config", {}), manifest["config"])}
    return LeftBehind(finished, tuple(sorted(keys)))


def _digest(manifest: Mapping[str, Any], name: str) -> Any:
    return manifest.get(name, {}).get("digest")


def _differing(earlier: dict[str, Any], now: dict[str, Any]) -> set[str]:
    before, after = flatten(earlier), flatten(now)
    keys = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    return {_INDICES.sub("", key) for key in keys}
