"""Where derived files that can be made again are kept between runs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_home() -> Path:
    """``$XDG_CACHE_HOME/rbx`` or ``~/.cache/rbx``; as the standard says, a relative value is ignored."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "rbx"


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside ``path`` and rename, so that no reader ever sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
