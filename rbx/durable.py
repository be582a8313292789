"""What survives ``kill -9``: files under a temporary name, synced, then renamed over the final one.

A folder held by one process is free again when that process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from rbx.errors import StoreError


def _replace(path: Path, write: Callable[[BinaryIO], object]) -> None:
    # The process id keeps two writers of one name apart; a leftover of a killed run is overwritten.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreError(
            f"{path}: can't be written: {error.strerror or error}; what was finished is kept"
        ) from None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_table(table: pa.Table, path: Path) -> None:
    """Write Parquet durably; the same table gives the same bytes."""
    _replace(path, lambda file: pq.write_table(table, file, compression="zstd"))


def write_text(text: str, path: Path) -> None:
    """Write UTF-8 text durably, line ends as they are."""
    _replace(path, lambda file: file.write(text.encode()))


def write_bytes(data: bytes, path: Path) -> None:
    """Write bytes durably."""
    _replace(path, lambda file: file.write(data))


def write_json(data: Any, path: Path) -> None:
    """Write JSON durably, keys in the order given; NaN and infinity are refused."""
    text = json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    write_text(text, path)


@contextmanager
def held(folder: Path, busy: str) -> Iterator[None]:
    """Make ``folder`` and hold it for this process; a second one is refused, not queued.

    Raises ``StoreError``; ``busy`` tells whose it is and what to do.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StoreError(f"{folder}: can't be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(f"{folder}: {busy}") from None
        yield
    finally:
        os.close(descriptor)


def clear_leftovers(folder: Path) -> int:
    """Remove temporary files of killed writers; returns how many there were."""
    leftovers = sorted(folder.glob(".*.tmp"))
    for leftover in leftovers:
        leftover.unlink(missing_ok=True)
    return len(leftovers)
