"""One live sweep at a time on the same servers, as far as this machine's user can tell."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from rbx.cache_home import cache_home
from rbx.durable import held

_PORTS = {"http": 80, "https": 443}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@contextmanager
def pool_lock(addresses: Iterable[str]) -> Iterator[None]:
    """Hold every address for this process; raises ``StoreError`` naming one that another sweep holds.

    The lock is the system's and ends with the process, however it ends: nothing has to be cleaned up.
    """
    with ExitStack() as stack:
        for place in sorted({_place(address) for address in addresses}):
            # A home may be shared by machines; each has its own loopback addresses.
            name = hashlib.sha256(f"{socket.gethostname()} {place}".encode()).hexdigest()[:24]
            busy = f"another live sweep uses {place}; two at once measure each other. Wait for its end"
            stack.enter_context(held(lock_home() / name, busy))
        yield


def lock_home() -> Path:
    """A folder of this user's, the same for every session."""
    return cache_home() / "live"


def _place(address: str) -> str:
    """Host and port, whatever the spelling; anything that is no address stands for itself."""
    parts = urlsplit(address)
    if parts.scheme not in _PORTS or parts.hostname is None:
        return address
    host = "localhost" if parts.hostname in _LOOPBACK else parts.hostname
    return f"{host}:{parts.port or _PORTS[parts.scheme]}"
