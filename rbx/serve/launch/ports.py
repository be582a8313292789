"""Ports: one that is asked for, and several that are free."""

from __future__ import annotations

import errno
import ipaddress
import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from rbx.errors import ServerError, UsageError

LOOPBACK = "127.0.0.1"
_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
_OUTGOING_FROM = 32_768  # Linux's default; other systems begin above it
_FIRST_QUIET = 10_240


def bound(host: str, port: int) -> socket.socket:
    """A socket bound to ``host`` and ``port``, 0 for a free one; raises ``ServerError`` naming the port."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise UsageError(f"--host {host!r} is no address of this machine: {error}") from None
    family, kind, protocol, _, address = found[0]
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(address)
        sock.listen(2048)
    except OSError as error:
        sock.close()
        why = "is in use" if error.errno == errno.EADDRINUSE else f"can't be used: {error.strerror}"
        raise ServerError(
            f"port {port} of {host} {why}; end what listens there, or give another --port (0: a free one)"
        ) from None
    return sock


def address_of(sock: socket.socket) -> str:
    """``http://HOST:PORT`` of a bound socket, as another program on this machine reaches it."""
    host, port = sock.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = LOOPBACK if sock.family == socket.AF_INET else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def free_ports(count: int, host: str = LOOPBACK) -> list[int]:
    """So many different ports of ``host`` that nothing listens on now.

    They are not among those that the system gives to outgoing connections, as long as there are others: a
    server that loads a model for minutes would find its port taken.

    Raises ``ServerError`` where it is no address of this machine.
    """
    with ExitStack() as held:
        candidates = _quiet_ports()
        ports: list[int] = []
        while len(ports) < count:
            sock = held.enter_context(socket.socket())
            try:
                sock.bind((host, next(candidates, 0)))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                raise ServerError(f"{host} is no address of this machine: {error.strerror}") from None
            ports.append(int(sock.getsockname()[1]))
        return ports


def _quiet_ports() -> Iterator[int]:
    """Ports that no outgoing connection gets, in random order: two launches seldom want the same one."""
    try:
        low = int(_OUTGOING.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        low = _OUTGOING_FROM
    quiet = range(_FIRST_QUIET, low)
    yield from random.SystemRandom().sample(quiet, len(quiet))
