"""Results on disk the moment they exist, one JSON line each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from rbx.errors import StoreError
from rbx.load.client.result import LoadResult


class JournalWriter:
    """Lines that wait, and the file they go to; several processes may write one file.

    Whole lines are appended in one go, which the system does not mix with those of others.
    """

    def __init__(self, path: Path) -> None:
        """Open an existing file; raises ``StoreError``."""
        self._path = path
        self._lines: list[bytes] = []
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise self._failure(error) from None

    def add(self, result: LoadResult) -> None:
        """Keep a result for the next ``take``; costs no system call."""
        self._lines.append(orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE))

    def take(self) -> bytes:
        """What waits to be written."""
        lines, self._lines = self._lines, []
        return b"".join(lines)

    def write(self, lines: bytes) -> None:
        """Append; may block, so that it belongs in a thread. Raises ``StoreError`` where the disk is full."""
        left = memoryview(lines)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            raise self._failure(error) from None

    def close(self, lines: bytes) -> None:
        """Append the last ones, sync and close; raises ``StoreError``."""
        try:
            self.write(lines)
            os.fsync(self._file)
        except OSError as error:
            raise self._failure(error) from None
        finally:
            os.close(self._file)

    def _failure(self, error: OSError) -> StoreError:
        return StoreError(f"{self._path}: can't be written: {error.strerror or error}")


def read_journal(path: Path) -> Iterator[LoadResult]:
    """All results in the order of their ends; a last line that was cut short by a kill is left out.

    Raises ``StoreError`` where the file is absent or damaged elsewhere.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    yield _parsed(line, f"{path}, line {number}")
    except OSError as error:
        raise StoreError(f"{path}: can't be read: {error.strerror or error}") from None


def _parsed(line: bytes, where: str) -> LoadResult:
    try:
        row: dict[str, Any] = orjson.loads(line)
        row["chunk_s"], row["chunk_tokens"] = tuple(row["chunk_s"]), tuple(row["chunk_tokens"])
        return LoadResult(**row)
    except (ValueError, TypeError, KeyError):
        raise StoreError(f"{where}: no result of the load client; delete the file to start over") from None
