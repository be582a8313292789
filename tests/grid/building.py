"""Building grids in tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rbx.config.base import Loaded, parse
from rbx.grid.build import Built, build_grid
from rbx.grid.spec import DatasetSpec


def loaded(source: dict[str, Any], name: str = "tiny") -> Loaded[DatasetSpec]:
    """A validated spec around one source."""
    data = {"name": name, "description": "a test", "source": source}
    return Loaded(parse(DatasetSpec, data, where="spec.yaml"), Path("spec.yaml"), {})


def build(source: dict[str, Any], folder: Path, *, force: bool = False, name: str = "tiny") -> Built:
    """Build a grid from one source."""
    return build_grid(loaded(source, name), folder, lambda phase: None, force=force)


def zeroeval(path: Path) -> dict[str, Any]:
    """A source section."""
    return {"kind": "zeroeval", "path": str(path)}
