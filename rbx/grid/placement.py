"""A directory that takes its place whole: synced, then renamed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rbx.errors import DatasetError
from rbx.grid.leftovers import aside_of
from rbx.grid.manifest import FILE, TABLES


def true_place(folder: Path) -> Path:
    """Where a directory to be written really lies: a link stays, and what it points to is written.

    Raises ``DatasetError`` where that is within a grid, which would go with it when it is replaced.
    """
    place = Path(os.path.realpath(folder)) if folder.is_symlink() else folder
    for around in Path(os.path.realpath(place)).parents:
        if all((around / name).is_file() for name in (FILE, *TABLES)):
            raise DatasetError(f"{folder}: lies within the grid {around}; give a directory outside of it")
    return place


def put_in_place(staging: Path, folder: Path) -> None:
    """Sync ``staging`` and let it become ``folder``, in place of what is there."""
    for path in sorted(staging.rglob("*"), reverse=True):
        sync(path)
    sync(staging)
    # A directory can't be renamed over a full one, so the old one steps aside first.
    aside = aside_of(folder)
    if folder.exists():
        folder.rename(aside)
    staging.rename(folder)
    sync(folder.parent)
    shutil.rmtree(aside, ignore_errors=True)


def sync(path: Path) -> None:
    """Have a file's or a directory's content on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
