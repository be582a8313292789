"""The server at a target's address, and how a connection to it is opened."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

from rbx.errors import ConfigError
from rbx.load.client.request import LoadTarget

P = TypeVar("P", bound=asyncio.Protocol)
_PORTS = {"http": 80, "https": 443}


class Origin:
    """Scheme, host and port of a target. No proxy is used: it would be measured too.

    The name is looked up once; addresses are tried in that order, from the one that worked last.
    """

    def __init__(self, target: LoadTarget) -> None:
        """Raises ``ConfigError`` for an address that is no HTTP URL."""
        try:
            parts = urlsplit(target.url)
            port = parts.port
        except ValueError as error:
            raise ConfigError(f"{target.url!r} is no address: {error}") from None
        if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"{target.url!r} is no address of the form http(s)://HOST[:PORT]/v1")
        if parts.username is not None:
            raise ConfigError("a target's address holds a user name; give the key apart")
        self.host_header = parts.netloc
        self.base_path = parts.path.rstrip("/")
        self._host = parts.hostname
        self._port = port if port is not None else _PORTS[parts.scheme]
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._addresses: list[str] = []

    async def resolve(self) -> None:
        """Look the name up; raises ``OSError``."""
        found = await asyncio.get_running_loop().getaddrinfo(self._host, self._port, type=1)
        self._addresses = list(dict.fromkeys(str(address[4][0]) for address in found))

    async def connect(self, factory: Callable[[], P]) -> P:
        """An open connection; raises ``OSError``."""
        loop = asyncio.get_running_loop()
        if not self._addresses:
            await self.resolve()
        failure: OSError = OSError(f"{self._host} has no address")
        name = self._host if self._tls is not None else None
        for address in list(self._addresses):
            try:
                _, protocol = await loop.create_connection(
                    factory, address, self._port, ssl=self._tls, server_hostname=name
                )
            except OSError as error:
                failure = error
                continue
            if self._addresses[0] != address:
                self._addresses.remove(address)
                self._addresses.insert(0, address)
            return protocol
        raise failure
