"""Grids from the Hugging Face hub, with a message that says how to go on without it."""

from __future__ import annotations

from rbx.errors import DatasetError
from rbx.hub import STALL_S, HubError, Snapshot, fetch_snapshot

PATTERNS = ("*.jsonl", "*.jsonl.gz", "*.parquet")


def fetch_dataset(repository: str, revision: str, stall_s: float = STALL_S) -> Snapshot:
    """A local folder with the dataset's files; raises ``DatasetError`` once nothing more comes."""
    try:
        return fetch_snapshot(repository, revision, PATTERNS, stall_s)
    except HubError as error:
        raise DatasetError(
            f"{repository} can't be fetched from the hub ({error}); try again (what was fetched is kept), or "
            "download it by other means and give the folder with "
            "--set source.hub=null --set source.path=DIR"
        ) from None
