"""What a build that was killed leaves beside its target, and how the next one clears it away.

A build writes in ``.NAME.PID.tmp`` and moves an older grid to ``.NAME.PID.old`` for the moment between two
renames. Directories of processes that still run are never touched.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path


def staging_of(folder: Path) -> Path:
    """Where this process writes what will become ``folder``."""
    return folder.with_name(f".{folder.name}.{os.getpid()}.tmp")


def aside_of(folder: Path) -> Path:
    """Where this process keeps the older ``folder`` while it is replaced."""
    return folder.with_name(f".{folder.name}.{os.getpid()}.old")


def clear_leftovers(folder: Path) -> None:
    """Remove what dead processes left of ``folder``; a grid they had moved aside returns if none is there."""
    for aside in _of_dead_processes(folder, "old"):
        if folder.exists():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.rename(folder)
    for staging in _of_dead_processes(folder, "tmp"):
        shutil.rmtree(staging, ignore_errors=True)


def _of_dead_processes(folder: Path, kind: str) -> Iterator[Path]:
    pattern = re.compile(rf"\.{re.escape(folder.name)}\.(\d{{1,10}})\.{kind}")
    for path in sorted(folder.parent.iterdir()):
        match = pattern.fullmatch(path.name)
        if match and path.is_dir() and not path.is_symlink() and not _runs(int(match[1])):
            yield path


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)  # signal 0 asks only
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
