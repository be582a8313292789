"""Grids on disk: written whole or not at all, read only if they are what their manifest says."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rbx import __version__
from rbx.errors import DatasetError
from rbx.grid.assemble import Grid
from rbx.grid.card import dataset_card
from rbx.grid.census import take_census
from rbx.grid.files import sha256_of
from rbx.grid.leftovers import clear_leftovers, staging_of
from rbx.grid.manifest import FILE, FORMAT, TABLES, Manifest, digest_of_files, read_manifest
from rbx.grid.placement import put_in_place, true_place
from rbx.grid.schema import DEFAULT_METRIC, LABELS, PROMPTS, RESPONSES, GridView
from rbx.grid.tables import Tables, counts_of
from rbx.grid.view import dense_view

CARD = "README.md"
SCHEMAS = dict(zip(TABLES, (PROMPTS, RESPONSES, LABELS), strict=True))


@dataclass(frozen=True)
class Origin:
    """What the manifest says of a grid's origin; ``sources`` maps spec keys to where their value is from."""

    name: str
    description: str
    licence: str
    synthetic: bool
    spec: dict[str, Any]
    sources: dict[str, str]
    provenance: dict[str, Any]


def write_grid(
    grid: Grid, origin: Origin, folder: Path, *, force: bool = False, succeeds: bool = False
) -> tuple[Manifest, bool]:
    """Write a grid directory; returns its manifest and whether anything had to be written.

    The files are written and synced in a directory beside it, which then takes its name; what killed
    builds left there is cleared away first. The same grid is left as it is; another grid is replaced only
    with ``force``, and what is not a grid never. ``succeeds`` says that a grid of the same name there came of
    the same work, which is still at hand: it gives way. Raises ``DatasetError``.
    """
    refuse_place(folder)
    folder = true_place(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = staging_of(folder)
    shutil.rmtree(staging, ignore_errors=True)
    try:
        clear_leftovers(folder)
        staging.mkdir()
        manifest = _write_files(grid, origin, staging)
        if folder.exists() and not _may_replace(folder, manifest, force=force, succeeds=succeeds):
            return manifest, False
        _refuse_foreign(folder)
        put_in_place(staging, folder)
    except OSError as error:
        raise DatasetError(f"{folder}: can't be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return manifest, True


def refuse_place(folder: Path) -> None:
    """Raise ``DatasetError`` where no grid can go: a place without a name, or with something else in it."""
    if not folder.name or folder.name == "..":
        raise DatasetError(
            f"--out {str(folder)!r}: names no directory of its own; give one such as datasets/NAME"
        )
    empty = folder.is_dir() and not any(folder.iterdir())
    # Bundles and sweeps have a manifest of the same name; prompts.parquet stands in a grid alone.
    if (folder.exists() or folder.is_symlink()) and not empty and not (folder / TABLES[0]).is_file():
        raise DatasetError(f"{folder}: exists and is not a grid; give another directory with --out")


def _write_files(grid: Grid, origin: Origin, staging: Path) -> Manifest:
    tables = Tables(grid.prompts, grid.responses, grid.labels)
    for name, table in zip(TABLES, (grid.prompts, grid.responses, grid.labels), strict=True):
        pq.write_table(table, staging / name, compression="zstd")
    files = {name: sha256_of(staging / name) for name in TABLES}
    manifest = Manifest(
        format=FORMAT,
        name=origin.name,
        description=origin.description,
        licence=origin.licence,
        synthetic=origin.synthetic,
        models=grid.models,
        metrics=grid.metrics,
        quality=grid.quality,
        counts=counts_of(tables, grid.duplicate_prompts, grid.disagreeing_duplicates),
        files=files,
        digest=digest_of_files(files),
        spec=origin.spec,
        sources=origin.sources,
        provenance=origin.provenance,
        versions={"rbx": __version__, "pyarrow": pa.__version__},
    )
    census = take_census(tables, grid.models, grid.metrics)
    (staging / CARD).write_text(dataset_card(manifest, census), encoding="utf-8")
    (staging / FILE).write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return manifest


def _may_replace(folder: Path, manifest: Manifest, *, force: bool, succeeds: bool) -> bool:
    """False where the very same grid is there already; raises where it must not be replaced."""
    if folder.is_dir() and not any(folder.iterdir()):
        return True
    if force:
        return True
    try:
        there = read_manifest(folder)
        _verify_files(folder, there)
    except DatasetError as error:
        raise DatasetError(f"{error}; or replace it with --force") from None
    if there.digest == manifest.digest:
        return there != manifest  # the same tables; their description may be new
    if succeeds and there.name == manifest.name:
        return True
    raise DatasetError(
        f"{folder}: holds another grid ({there.name}, digest {there.digest[:12]}, this one would be "
        f"{manifest.digest[:12]}); replace it with --force or choose another directory with --out"
    )


def _refuse_foreign(folder: Path) -> None:
    """Raises where files that no grid has would go with the grid that is replaced."""
    foreign = (
        sorted({path.name for path in folder.iterdir()} - {*TABLES, FILE, CARD}) if folder.is_dir() else []
    )
    if foreign:
        more = f" and {len(foreign) - 1:,} more" if len(foreign) > 1 else ""
        raise DatasetError(
            f"{folder}: holds {foreign[0]!r}{more}, which is no part of the grid and would be lost with it; "
            "move it away, or give another directory with --out"
        )


def read_tables(folder: Path) -> tuple[Manifest, Tables]:
    """Manifest and tables, with digests and schemas verified; raises ``DatasetError``."""
    manifest = read_manifest(folder)
    _verify_files(folder, manifest)
    prompts, responses, labels = (_read_table(folder / name, SCHEMAS[name]) for name in TABLES)
    return manifest, Tables(prompts, responses, labels)


def _verify_files(folder: Path, manifest: Manifest) -> None:
    for name in TABLES:
        path = folder / name
        if not path.is_file():
            raise DatasetError(f"{path}: no such file; build the grid again")
        if sha256_of(path) != manifest.files[name]:
            raise DatasetError(
                f"{path}: not the file that {FILE} names (sha256 differs); build the grid again"
            )


def _read_table(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise DatasetError(f"{path}: not a readable Parquet file: {error}") from None
    for kind in schema:
        if kind.name not in table.column_names:
            raise DatasetError(f"{path}: no column {kind.name}; build the grid again")
        if table.schema.field(kind.name).type != kind.type:
            found = table.schema.field(kind.name).type
            raise DatasetError(f"{path}, column {kind.name}: is {found}, expected {kind.type}")
    return table.select(schema.names)


def open_view(path: Path, metric: str = DEFAULT_METRIC) -> GridView:
    """Open a grid directory on one metric; ``quality`` is the one that stands for it in this grid.

    Raises ``DatasetError`` where a file is absent, altered or malformed (naming file, row and column),
    and where the grid has no such metric (naming those it has).
    """
    manifest, tables = read_tables(path)
    chosen = manifest.metric_called(metric)
    return dense_view(path, manifest, tables, chosen)
