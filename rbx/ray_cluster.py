"""One connection of this process to a Ray cluster.

Ray runs what it is sent with the rights of whoever started it, and sends objects as pickles: a cluster is
as open as its ports. One that is started here listens on the loopback interface alone, and asks for a token
of its own where Ray knows tokens.
"""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from rbx.errors import MissingExtraError, ServerError

CLIENT = "ray://"
_REACH_S = 10.0
_CLIENT_TRIES = 3
_NO_SERVER = "Starting Ray client server failed"
_WHY_CHARACTERS = 500
_REFUSED = (ConnectionError, RuntimeError, ValueError, TimeoutError)


@contextmanager
def connected(address: str, runtime_env: Mapping[str, Any] | None = None) -> Iterator[Any]:
    """The module ``ray`` while this process is a driver of the cluster at ``address``.

    ``address`` is ``auto`` (RAY_ADDRESS, else the cluster that this machine is part of), ``local`` (a new one
    that ends with the block), HOST:PORT or ray://HOST:PORT. ``runtime_env`` is what Ray sends its workers.
    Raises ``MissingExtraError``, or ``ServerError`` where there is no such cluster.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")  # of a minute each, for a cluster that is gone
    if address == "local":
        _keep_to_ourselves()
    else:
        _check_reachable(os.environ.get("RAY_ADDRESS", "") if address == "auto" else address)
    handler = signal.getsignal(signal.SIGTERM)
    ray = _module()
    try:
        _init(ray, address, runtime_env)
    except (*_REFUSED, ray.exceptions.RayError) as error:
        raise ServerError(_refusal(address, cause_of(error) or type(error).__name__)) from None
    finally:
        signal.signal(signal.SIGTERM, handler)  # Ray's own would end us where we stand
    try:
        yield ray
    finally:
        ray.shutdown()


def _init(ray: Any, address: str, runtime_env: Mapping[str, Any] | None) -> None:
    for tries_left in reversed(range(_CLIENT_TRIES if address.startswith(CLIENT) else 1)):
        try:
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env=None if runtime_env is None else dict(runtime_env),
                **({"include_dashboard": False} if address == "local" else {}),
            )
        except _REFUSED as error:
            # The head starts a server for each client, and on a busy machine that fails now and then.
            if not tries_left or _NO_SERVER not in str(error):
                raise
        else:
            return


def cause_of(error: BaseException) -> str:
    """On one line, what Ray says of a failure; of an error that was raised there, that error."""
    return " ".join(str(getattr(error, "cause", None) or error).split())[:_WHY_CHARACTERS]


def _module() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise MissingExtraError("Ray is not installed: pip install -e '.[ray]' in rbx's folder") from None


def _keep_to_ourselves() -> None:
    # The switch is named after the systems on which Ray does so by itself: no address but the loopback's.
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def _check_reachable(address: str) -> None:
    """Ray itself takes minutes to say that nobody listens."""
    parts = urlsplit(address if address.startswith(CLIENT) else f"{CLIENT}{address}")
    try:
        if parts.hostname and parts.port:
            socket.create_connection((parts.hostname, parts.port), timeout=_REACH_S).close()
    except OSError as error:
        raise ServerError(_refusal(address, error.strerror or "no answer")) from None
    except ValueError as error:
        raise ServerError(_refusal(address, str(error))) from None


def _refusal(address: str, why: str) -> str:
    what = "a Ray cluster that this machine is part of (auto)" if address == "auto" else f"Ray at {address}"
    return (
        f"{what} can't be used: {why}. HOST:PORT is the head's address as one of its nodes gives it to `ray "
        "start`, ray://HOST:PORT its client port (10001), for machines outside; `local` (for a sweep "
        "ray://local) starts a cluster here"
    )
