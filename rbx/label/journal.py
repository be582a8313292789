"""Rows on disk the moment they exist: append-only JSON lines that outlive ``kill -9``."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from rbx.errors import DatasetError

SYNC_S = 1.0


def encodable(text: str) -> bool:
    """Whether UTF-8 can hold it: JSON can carry lone surrogates, tables can't."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Entry(NamedTuple):
    """A row and where it lies, for ``Journal.reader``."""

    offset: int
    row: dict[str, Any]


class Journal:
    """One file of rows, held by one process at a time.

    A row is handed to the system when it is appended, so a killed process loses none; the disk is synced
    once a second, so a power cut loses a second's. A line that was cut short by either is removed when the
    file is opened again.
    """

    def __init__(self, path: Path) -> None:
        """Open or make the file; raises ``DatasetError`` where another process holds it."""
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b", buffering=0)
        except OSError as error:
            raise DatasetError(f"{path}: can't be opened: {error.strerror or error}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._end = self._drop_torn_line()
        except BlockingIOError:
            self._file.close()
            raise DatasetError(f"{path}: another rbx writes it; wait for that one, or end it") from None
        except OSError as error:
            self._file.close()
            raise DatasetError(f"{path}: can't be locked or read: {error.strerror or error}") from None
        self._synced_s = time.monotonic()

    def __enter__(self) -> Journal:
        """The journal itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Sync and close."""
        self.close()

    def append(self, row: dict[str, Any]) -> int:
        """Add a row; returns where it lies. Raises ``DatasetError`` where the disk takes no more."""
        offset = self._end
        line = json.dumps(row, separators=(",", ":")).encode() + b"\n"
        try:
            written = self._file.write(line)
            while written < len(line):
                written += self._file.write(line[written:])
            if time.monotonic() - self._synced_s > SYNC_S:
                self._sync()
        except OSError as error:
            self._file.truncate(offset)  # or else the next row would go on in the middle of this one
            raise DatasetError(
                f"{self.path}: can't be written: {error.strerror or error}; the rows so far are kept, "
                "so make room and run the command again"
            ) from None
        self._end += len(line)
        return offset

    def close(self) -> None:
        """Sync, and let others have the file."""
        if not self._file.closed:
            try:
                self._sync()
            except OSError as error:
                raise DatasetError(f"{self.path}: can't be written: {error.strerror or error}") from None
            finally:
                self._file.close()

    def entries(self) -> Iterator[Entry]:
        """Every row in the order of writing; raises ``DatasetError`` for a damaged one."""
        offset = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield Entry(offset, self._parsed(line, f"line {number}"))
                offset += len(line)

    @contextmanager
    def reader(self) -> Iterator[Callable[[int], dict[str, Any]]]:
        """A function from an offset of ``entries`` or ``append`` to its row, over one open file."""
        with self.path.open("rb") as file:

            def read(offset: int) -> dict[str, Any]:
                file.seek(offset)
                return self._parsed(file.readline(), f"byte {offset}")

            yield read

    def _parsed(self, line: bytes, where: str) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise DatasetError(
                f"{self.path}, {where}: damaged; delete the line to have its row made again"
            ) from None
        return row

    def _drop_torn_line(self) -> int:
        """Cut the file after its last whole line; returns its length."""
        end = self._file.seek(0, os.SEEK_END)
        start = end
        while start > 0:  # backwards in blocks to the last line's end
            step = min(start, 1 << 16)
            self._file.seek(start - step)
            found = self._file.read(step).rfind(b"\n")
            if found >= 0:
                start = start - step + found + 1
                break
            start -= step
        if start != end:
            self._file.truncate(start)
        return start

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        self._synced_s = time.monotonic()
