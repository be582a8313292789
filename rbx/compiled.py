"""Where compiled kernels are kept; every kernel imports its ``njit`` from here.

numba stamps a cached kernel with the content of its own file alone: edit a function that it calls in
another file, and the old machine code runs on without a word. So the cache lies in a folder named by
the digest of all sources of this package (and of numba's version): other sources, other folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import config, njit

from rbx.cache_home import cache_home

__all__ = ["bare_njit", "is_cold", "njit"]

_Kernel = TypeVar("_Kernel", bound=Callable[..., Any])


def bare_njit(kernel: _Kernel) -> _Kernel:
    """``njit(cache=True)`` for kernels that create no array: arrays passed on are not reference-counted.

    A state of several arrays that goes through a call costs an atomic count up and down for each, more
    than the work of a small kernel. numba refuses to compile one that allocates.
    """
    # numba's stubs leave the option out.
    options: dict[str, Any] = {"cache": True, "_nrt": False}
    compiled: _Kernel = njit(**options)(kernel)
    return compiled


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


def is_cold() -> bool:
    """Whether the kernels of these sources have never been compiled on this machine."""
    return not Path(vars(config)["CACHE_DIR"]).exists()
