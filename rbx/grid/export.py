"""A grid in the layout of the Hugging Face hub: shards by split under ``data/``, and a card."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rbx import __version__
from rbx.errors import DatasetError
from rbx.grid import export_long, export_routebalance
from rbx.grid.card import Layout, dataset_card
from rbx.grid.census import take_census
from rbx.grid.files import sha256_of
from rbx.grid.leftovers import clear_leftovers, staging_of
from rbx.grid.manifest import Manifest
from rbx.grid.placement import put_in_place, true_place
from rbx.grid.rules import SPLITS
from rbx.grid.store import read_tables
from rbx.grid.tables import Tables, codes
from rbx.grid.view import refuse_faults

FILE = "rbx-export.json"
CARD = "README.md"
SHARD_BYTES = 256 << 20

Schema = Literal["tables", "routebalance"]
Int64s = NDArray[np.int64]


class Rows(Protocol):
    """The rows of one schema."""

    def write(self, path: Path, prompts: Int64s) -> None:
        """Write the rows of these prompts."""

    def text(self) -> str:
        """What a reader of the card needs to know of the columns."""


class Exported(NamedTuple):
    """Prompts by split, the files, and whether the directory changed."""

    prompts: dict[str, int]
    files: tuple[str, ...]
    written: bool


def export_grid(
    folder: Path, out: Path, schema: Schema, *, force: bool = False, shard_bytes: int = SHARD_BYTES
) -> Exported:
    """Write the grid in ``folder`` to ``out``, whole or not at all.

    A shard holds about ``shard_bytes`` of text before compression, and all rows of a prompt. The same
    export is left as it is, another one replaced only with ``force``, and a directory with anything that no
    export wrote never. Raises ``DatasetError``.
    """
    if not out.name or out.name == ".." or out.resolve().is_relative_to(folder.resolve()):
        raise DatasetError(f"--hf {str(out)!r}: give a directory of its own outside the grid")
    out = true_place(out)
    manifest, tables = read_tables(folder)
    refuse_faults(folder, manifest, tables)
    staging = staging_of(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        clear_leftovers(out)
        shutil.rmtree(staging, ignore_errors=True)
        (staging / "data").mkdir(parents=True)
        marker = _write(manifest, tables, schema, staging, shard_bytes)
        written = not out.exists() or _may_replace(out, marker, force=force)
        if written:
            put_in_place(staging, out)
    except OSError as error:
        raise DatasetError(f"{out}: can't be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    counts = {"train": manifest.counts.train, "test": manifest.counts.test}
    return Exported(counts, (*marker["files"], FILE), written)


def _write(
    manifest: Manifest, tables: Tables, schema: Schema, staging: Path, shard_bytes: int
) -> dict[str, Any]:
    long = schema == "tables"
    rows: Rows
    if long:
        rows, ending = export_long.LongRows(manifest, tables), export_long.ENDING
    else:
        rows, ending = export_routebalance.RouteBalanceRows(manifest, tables), export_routebalance.ENDING
    sizes = _text_bytes(manifest, tables, times=len(manifest.models) if long else 1)
    data_files = []
    for split in SPLITS:
        prompts = np.flatnonzero(pc.equal(tables.prompts["split"], split).to_numpy()).astype(np.int64)
        shards = list(_shards(prompts, sizes, shard_bytes))
        for number, shard in enumerate(shards):
            rows.write(staging / "data" / f"{split}-{number:05d}-of-{len(shards):05d}.{ending}", shard)
        if shards:
            data_files.append({"split": split, "path": f"data/{split}-*.{ending}"})
    layout = Layout(
        configs=[{"config_name": "default", "data_files": data_files}],
        text=rows.text(),
        features=None if long else export_routebalance.FEATURES,
        rows=manifest.counts.prompts * (len(manifest.models) if long else 1),
    )
    census = take_census(tables, manifest.models, manifest.metrics)
    (staging / CARD).write_text(dataset_card(manifest, census, layout), encoding="utf-8")
    paths = sorted(path for path in staging.rglob("*") if path.is_file())
    marker: dict[str, Any] = {
        "grid": manifest.name,
        "digest": manifest.digest,
        "schema": schema,
        "rbx": __version__,
        "files": {path.relative_to(staging).as_posix(): sha256_of(path) for path in paths},
    }
    (staging / FILE).write_text(json.dumps(marker, indent=1) + "\n", encoding="utf-8")
    return marker


def _text_bytes(manifest: Manifest, tables: Tables, times: int) -> Int64s:
    """Bytes of text by prompt, a prompt's own counted ``times`` times."""
    ids = tables.prompts["prompt_id"]
    sizes = _row_bytes(tables.prompts) * times
    for table in (tables.responses, tables.labels):
        sizes += np.bincount(codes(table["prompt_id"], ids), _row_bytes(table), len(ids)).astype(np.int64)
    return sizes


def _row_bytes(table: pa.Table) -> Int64s:
    total = np.zeros(table.num_rows, dtype=np.int64)
    for kind in table.schema:
        if pa.types.is_string(kind.type):
            total += pc.binary_length(table[kind.name]).fill_null(0).to_numpy()
    return total


def _shards(prompts: Int64s, sizes: Int64s, most_bytes: int) -> Iterator[Int64s]:
    """Prompts in their order, as many together as fit; one that is larger stands alone."""
    start, held = 0, 0
    for at, size in enumerate(sizes[prompts].tolist()):
        if at > start and held + size > most_bytes:
            yield prompts[start:at]
            start, held = at, 0
        held += size
    if start < len(prompts):
        yield prompts[start:]


def _may_replace(out: Path, marker: dict[str, Any], *, force: bool) -> bool:
    """False where the very same export is there already; raises where it must not be replaced."""
    if out.is_dir() and not any(out.iterdir()):
        return True
    there = _marker_of(out)
    if there is None:
        raise DatasetError(f"{out}: exists and is no export; give another directory with --hf")
    known = {FILE, *there["files"]}
    foreign = sorted(
        path.relative_to(out).as_posix()
        for path in out.rglob("*")
        if (path.is_symlink() or not path.is_dir()) and path.relative_to(out).as_posix() not in known
    )
    if foreign:
        more = f" and {len(foreign) - 1:,} more" if len(foreign) > 1 else ""
        raise DatasetError(
            f"{out}: holds {foreign[0]!r}{more}, which its {FILE} does not list, so no export wrote it; move "
            "it away, or give another directory with --hf"
        )
    if there == marker and _intact(out, marker):
        return False
    if not force and (there.get("digest"), there.get("schema")) != (marker["digest"], marker["schema"]):
        raise DatasetError(
            f"{out}: holds another export ({there.get('grid')}, schema {there.get('schema')}); replace it "
            "with --force or choose another directory with --hf"
        )
    return True


def _marker_of(out: Path) -> dict[str, Any] | None:
    try:
        marker = json.loads((out / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    known = isinstance(marker, dict) and isinstance(marker.get("files"), dict) and "digest" in marker
    return marker if known else None


def _intact(out: Path, marker: dict[str, Any]) -> bool:
    return all(
        (out / name).is_file() and sha256_of(out / name) == sha for name, sha in marker["files"].items()
    )
