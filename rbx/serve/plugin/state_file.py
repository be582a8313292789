"""The writing side of a published file; one per engine process and data-parallel rank."""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rbx.engine.snapshot_columns import N_REQUEST
from rbx.serve.plugin.layout import (
    CLOSED,
    HEADER,
    LAYOUT,
    MAGIC,
    STOPPED,
    SUFFIX,
    checksum,
    file_bytes,
    views,
)
from rbx.serve.plugin.processes import process_started, runs
from rbx.serve.plugin.regular_file import open_regular

ROW_CAPACITY = 16_384
RING_CAPACITY = 65_536


def state_directory() -> Path:
    """``$RBX_STATE_DIR``, else a folder of the user's own in memory (or among temporary files)."""
    if chosen := os.environ.get("RBX_STATE_DIR"):
        return Path(chosen)
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "rbx"
    memory = Path("/dev/shm")
    base = memory if memory.is_dir() else Path(tempfile.gettempdir())
    return base / f"rbx-{os.getuid()}"


def private_directory(path: Path) -> Path:
    """Make ``path`` for the user alone; raises ``PermissionError`` if it belongs to another."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to another user; set RBX_STATE_DIR to a folder of your own")
    return path


def remove_stale(directory: Path) -> None:
    """Delete the files of processes that are gone; what can't be read or deleted stays."""
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        with suppress(OSError):
            if _is_stale(path):
                path.unlink()


def _is_stale(path: Path) -> bool:
    with open_regular(path) as file:
        found = file.read(HEADER.itemsize)
    if len(found) < HEADER.itemsize:
        return False
    header = np.frombuffer(found, HEADER)[0]
    return bool(header["magic"] == MAGIC) and not runs(int(header["pid"]), int(header["pid_started"]))


class StateFile:
    """A new file of mode 0600 in ``directory``, mapped for writing.

    ``fields`` are those of ``layout.HEADER`` that describe the server and its limits.
    """

    def __init__(
        self,
        directory: Path,
        fields: Mapping[str, int | str],
        *,
        rank: int = 0,
        row_capacity: int = ROW_CAPACITY,
        ring_capacity: int = RING_CAPACITY,
    ) -> None:
        """Create the file; raises ``OSError`` where that is not possible."""
        pid = os.getpid()
        remove_stale(private_directory(directory))
        self.path = directory / f"engine-{pid}-{rank}{SUFFIX}"
        # A temporary name until the header is whole: a reader never meets half of one.
        temporary = self.path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        size = file_bytes(row_capacity, ring_capacity)
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.ftruncate(descriptor, size)
            self._map = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        self._views = views(memoryview(self._map), row_capacity, ring_capacity)
        header = self._views.header
        for name, value in fields.items():
            header[name] = value.encode() if isinstance(value, str) else value
        header["layout"], header["request_columns"] = LAYOUT, N_REQUEST
        header["pid"], header["pid_started"] = pid, process_started(pid)
        header["data_parallel_rank"], header["created_s"] = rank, time.monotonic()
        header["row_capacity"], header["ring_capacity"] = row_capacity, ring_capacity
        header["magic"] = MAGIC
        temporary.rename(self.path)

    @property
    def row_capacity(self) -> int:
        """How many requests a snapshot can show."""
        return len(self._views.rows)

    def publish(self, snapshot: NDArray[np.void], rows: NDArray[np.int64]) -> None:
        """Replace the snapshot: scalars (1,) of ``layout.SNAPSHOT``, C-ordered rows (N, ROW_COLUMNS)."""
        state = self._views
        state.sequence[0] += 1
        state.snapshot[0] = snapshot[0]
        state.rows[: len(rows)] = rows
        state.checksum[0] = checksum(snapshot, rows)
        state.sequence[0] += 1

    def append(self, step: NDArray[np.void]) -> None:
        """Add one executed step (``layout.STEP``, () or (1,)) to the ring; its number is set here."""
        state = self._views
        number = int(state.steps[0])
        slot = state.ring[number % len(state.ring) :][:1]
        slot["number"] = -1  # a reader that meets this row leaves it out
        step["number"] = number
        slot[:] = step
        state.steps[0] = number + 1

    def stop(self, reason: str) -> None:
        """Tell readers that nothing more will come, and why."""
        header = self._views.header
        header["errors"] += 1
        header["error"] = reason.encode(errors="replace")[:512]
        header["status"] = STOPPED

    def close(self) -> None:
        """Tell readers that the server has ended, and remove the file."""
        self._views.header["status"] = CLOSED
        self.path.unlink(missing_ok=True)
