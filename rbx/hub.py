"""Files of the Hugging Face hub: one attempt that is given up once nothing more comes."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

# Longer than the hub's client takes, with its retries, to report a connection that went silent (65 s).
STALL_S = 120.0
POLL_S = 1.0
REFUSED_STATUS = (401, 403)
_COMMIT = re.compile(r"[0-9a-f]{40}")

RepositoryKind = Literal["dataset", "model"]


@dataclass
class HubError(Exception):
    """Nothing came; callers add what to do. ``refused``: the hub wants a token, or an accepted licence."""

    why: str
    refused: bool = False

    def __str__(self) -> str:
        """The reason in one line."""
        return self.why


class Snapshot(NamedTuple):
    """Files of one commit in a local folder; the commit is None where the folder's name does not tell it."""

    folder: Path
    commit: str | None


def fetch_snapshot(
    repository: str, revision: str, patterns: Sequence[str], stall_s: float = STALL_S
) -> Snapshot:
    """A data set's files that match one of ``patterns``, by the hub's cache; raises ``HubError``.

    What was fetched stays in the cache, so that another try goes on from there; with ``HF_HUB_OFFLINE``
    the cache alone is used.
    """
    from huggingface_hub import snapshot_download

    def download() -> str:
        return snapshot_download(
            repository, repo_type="dataset", revision=revision, allow_patterns=list(patterns)
        )

    folder = _fetched(download, repository, "dataset", stall_s)
    return Snapshot(folder, folder.name if _COMMIT.fullmatch(folder.name) else None)


def fetch_file(repository: str, file: str, revision: str, stall_s: float = STALL_S) -> Path:
    """One file of a model's repository, by the hub's cache; raises ``HubError``."""
    from huggingface_hub import hf_hub_download

    def download() -> str:
        return hf_hub_download(repository, file, revision=revision)

    return _fetched(download, repository, "model", stall_s)


def _fetched(download: Callable[[], str], repository: str, kind: RepositoryKind, stall_s: float) -> Path:
    import httpx

    found: list[Path] = []
    faults: list[Exception] = []

    def work() -> None:
        try:
            found.append(Path(download()))
        except (OSError, ValueError, RuntimeError, httpx.HTTPError) as error:
            faults.append(error)

    # A daemon thread: a download that hangs must not keep the interpreter from exiting.
    worker = threading.Thread(target=work, name="hub-download", daemon=True)
    worker.start()
    _wait(worker, _cache_folder(repository, kind), stall_s)
    if found:
        return found[0]
    if not faults:
        raise HubError(f"nothing came for {stall_s:g} s")
    response = getattr(faults[0], "response", None)
    refused = getattr(response, "status_code", None) in REFUSED_STATUS
    raise HubError(_in_one_line(faults[0]), refused)


def _wait(worker: threading.Thread, folder: Path, stall_s: float) -> None:
    """Until the worker ends, or ``folder`` has not grown for ``stall_s``.

    The client bounds each read only: a whole download may take hours, or hang.
    """
    size, grown_s = _bytes_under(folder), time.monotonic()
    while worker.is_alive() and time.monotonic() - grown_s < stall_s:
        worker.join(min(POLL_S, stall_s))
        if (now := _bytes_under(folder)) != size:
            size, grown_s = now, time.monotonic()


def _cache_folder(repository: str, kind: RepositoryKind) -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / f"{kind}s--{repository.replace('/', '--')}"


def _bytes_under(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        try:
            size += path.lstat().st_size
        except FileNotFoundError:  # a finished part was just given its final name
            continue
    return size


def _in_one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines)}"
