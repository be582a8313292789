"""What the servers counted before and after each cell: their ``/metrics`` pages, kept in the store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

FOLDER = "server"
When = Literal["before", "after"]


def write_pages(sweep: Path, cell_id: str, when: When, pages: Mapping[str, str]) -> None:
    """Keep pages by instance as ``server/CELL.before.txt.zst`` or ``.after.txt.zst``."""
    raise NotImplementedError


def read_pages(sweep: Path, cell_id: str, when: When) -> dict[str, str]:
    """Pages by instance; raises ``StoreError`` where there are none, or the file is not whole."""
    raise NotImplementedError
