"""Datasets from the Hugging Face hub: one attempt, bounded in time, with a message that says what to do."""

from __future__ import annotations

import threading
from pathlib import Path

from rbx.errors import DatasetError

TIMEOUT_S = 30.0
PATTERNS = ["*.jsonl", "*.jsonl.gz", "*.parquet"]


def fetch_dataset(repository: str, revision: str, timeout_s: float = TIMEOUT_S) -> Path:
    """A local folder with the dataset's files; raises ``DatasetError`` past ``timeout_s``.

    What was fetched stays in the hub's cache, so that another try goes on from there; with
    ``HF_HUB_OFFLINE`` the cache alone is used.
    """
    import httpx
    from huggingface_hub import snapshot_download

    found: list[Path] = []
    faults: list[Exception] = []

    def fetch() -> None:
        try:
            folder = snapshot_download(
                repository, repo_type="dataset", revision=revision, allow_patterns=PATTERNS
            )
            found.append(Path(folder))
        except (OSError, ValueError, RuntimeError, httpx.HTTPError) as error:
            faults.append(error)

    # A daemon thread: a download that hangs must not keep the interpreter from exiting.
    worker = threading.Thread(target=fetch, name="dataset-download", daemon=True)
    worker.start()
    worker.join(timeout_s)
    if found:
        return found[0]
    why = f"{type(faults[0]).__name__}: {faults[0]}" if faults else f"not finished within {timeout_s:g} s"
    raise DatasetError(
        f"{repository} can't be fetched from the hub ({why}); try again (what was fetched is kept), or "
        "download it by other means and give the folder with --set source.hub=null --set source.path=DIR"
    )
