"""From a spec to a grid on disk."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rbx.config.base import Loaded
from rbx.config.labelling import LabelSource
from rbx.grid.assemble import assemble
from rbx.grid.harvest import Harvest, Say
from rbx.grid.manifest import Manifest
from rbx.grid.spec import (
    DatasetSpec,
    LongTableSource,
    RouteBalanceSource,
    SynthSource,
    WideTableSource,
    ZeroEvalSource,
)
from rbx.grid.store import Origin, write_grid


class Built(NamedTuple):
    """The manifest, and whether the directory changed (False: the same grid was there)."""

    manifest: Manifest
    written: bool


def build_grid(loaded: Loaded[DatasetSpec], folder: Path, say: Say, *, force: bool = False) -> Built:
    """Harvest the source, assemble the grid and write it; raises ``DatasetError`` or ``ConfigError``."""
    return write_harvest(loaded, _read(loaded.value, say), folder, say, force=force)


def write_harvest(
    loaded: Loaded[DatasetSpec],
    harvest: Harvest,
    folder: Path,
    say: Say,
    *,
    force: bool = False,
    succeeds: bool = False,
) -> Built:
    """Assemble the grid of a harvest and write it as ``write_grid`` does; raises ``DatasetError``."""
    spec = loaded.value
    source = spec.source
    quality = source.quality if isinstance(source, (LabelSource, RouteBalanceSource)) else None
    say("assembling")
    grid = assemble(harvest, spec.name, quality)
    say("writing")
    origin = Origin(
        name=spec.name,
        description=spec.description,
        licence=spec.licence,
        synthetic=harvest.synthetic,
        spec=spec.model_dump(mode="json"),
        sources=loaded.sources,
        provenance=harvest.provenance,
    )
    return Built(*write_grid(grid, origin, folder, force=force, succeeds=succeeds))


def _read(spec: DatasetSpec, say: Say) -> Harvest:
    source = spec.source
    if isinstance(source, ZeroEvalSource):
        from rbx.grid.zeroeval import read_zeroeval

        return read_zeroeval(source, say)
    if isinstance(source, RouteBalanceSource):
        from rbx.grid.routebalance import read_routebalance

        return read_routebalance(source, say)
    if isinstance(source, (LongTableSource, WideTableSource)):
        from rbx.grid.table import read_table

        return read_table(source, say)
    assert isinstance(source, SynthSource)
    from rbx.grid.synth.draw import draw_synthetic

    return draw_synthetic(source, say)
