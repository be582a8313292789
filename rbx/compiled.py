"""Where compiled kernels are kept; every kernel imports its ``njit`` from here.

numba stamps a cached kernel with the content of its own file alone: edit a function that it calls in
another file, and the old machine code runs on without a word. So the cache lies in a folder named by
the digest of all sources of this package (and of numba's version): other sources, other folder.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numba
from numba import config, njit

from rbx.cache_home import cache_home

__all__ = ["njit"]


def sources_digest(package: Path) -> str:
    """Digest of every Python file below ``package``, by relative path and content."""
    sha = hashlib.sha256(numba.__version__.encode())
    for path in sorted(package.rglob("*.py")):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        sha.update(f"{path.relative_to(package).as_posix()} {content}\n".encode())
    return sha.hexdigest()[:16]


def _place_cache() -> None:
    """Must run before the first decorator: numba asks for the folder when it decorates.

    A folder that the user chose (NUMBA_CACHE_DIR) stays the parent.
    """
    settings = vars(config)
    parent = Path(settings["CACHE_DIR"] or cache_home() / "numba")
    settings["CACHE_DIR"] = str(parent / f"rbx-{sources_digest(Path(__file__).parent)}")


_place_cache()
