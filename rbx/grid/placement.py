"""A directory that takes its place whole: synced, then renamed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rbx.grid.leftovers import aside_of


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
