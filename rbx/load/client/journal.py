"""Results on disk the moment they exist, one JSON line each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rbx.load.client.result import LoadResult


def read_journal(path: Path) -> Iterator[LoadResult]:
    """All results in the order of their ends; a last line that was cut short by a kill is left out.

    Raises ``StoreError`` where the file is absent or damaged elsewhere.
    """
    raise NotImplementedError
