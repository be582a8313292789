"""Where a sweep was run: versions, revision and host, for its manifest."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import rbx

_PACKAGES = ("numpy", "numba", "pandas", "pyarrow", "faiss-cpu", "xgboost-cpu", "onnxruntime", "tokenizers")


def provenance() -> dict[str, Any]:
    """Versions of what can change a result; nothing that identifies a person."""
    return {
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": versions(),
        "revision": _revision(),
        "host": {"machine": platform.machine(), "system": platform.system(), "cpus": os.cpu_count()},
    }


def versions() -> dict[str, str]:
    """Of Python, rbx and the packages that can change a result."""
    return {"rbx": rbx.__version__, "python": platform.python_version(), **_installed()}


def _installed() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _revision() -> str | None:
    """Commit of the source tree, with ``+changes`` where it differs; null outside a checkout."""
    git = ["git", "-C", str(Path(rbx.__file__).parent)]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5)
        status = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if head.returncode != 0:
        return None
    return head.stdout.strip() + ("+changes" if status.stdout.strip() else "")
