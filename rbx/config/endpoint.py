"""A live server that speaks the OpenAI API, and how hard it may be pressed."""

from __future__ import annotations

import ipaddress
import os
import re
from typing import Annotated, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field

from rbx.config.base import PositiveFloat, StrictModel, Text
from rbx.errors import ConfigError

Concurrency = Annotated[int, Field(ge=1, le=4096, strict=True)]
Attempts = Annotated[int, Field(ge=1, le=100, strict=True)]

_HOST = re.compile(r"[A-Za-z0-9._-]+")


def host_fault(parts: SplitResult) -> str | None:
    """What is wrong with the host or the port of an address, or None."""
    host = parts.hostname
    if not host:
        return "it names no host"
    try:
        if parts.port == 0:
            return "port 0 is none that a server listens on"
    except ValueError:
        return "its port is none from 1 to 65535"
    try:
        ipaddress.ip_address(host)
    except ValueError:
        try:
            plain = host.encode("idna").decode("ascii")
        except UnicodeError:
            return "its host holds an empty part, or one longer than 63 characters"
        if not _HOST.fullmatch(plain):
            return "its host holds characters that no host's name has"
    return None


def _address(url: str) -> str:
    # A refused address is shown only where it can hold no password.
    if "@" in url:
        raise ValueError("must hold no user, password or @; keys go into api_key_env")
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url.partition('?')[0]!r} is not an address such as http://127.0.0.1:8000/v1")
    if parts.query or parts.fragment:
        raise ValueError("must hold no query or fragment; keys go into api_key_env")
    if fault := host_fault(parts):
        raise ValueError(f"{url!r} is no address: {fault}")
    return url.rstrip("/")


Address = Annotated[Text, AfterValidator(_address)]
EnvironmentName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Endpoint(StrictModel):
    """Where a model answers.

    ``url`` is the API's base, such as ``http://127.0.0.1:8000/v1``. ``deadline_s`` bounds one try of a
    call, ``attempts`` the tries; between two of them lies a random part of ``backoff_s``, doubled each
    time, or what the server's Retry-After says. The key is read from the environment variable that
    ``api_key_env`` names and stands in no file.
    """

    url: Address
    served_name: Text | None = None  # the model's name in requests; default: its own
    concurrency: Concurrency = 16
    deadline_s: PositiveFloat = 300.0
    attempts: Attempts = 4
    backoff_s: PositiveFloat = 0.5
    api_key_env: EnvironmentName | None = None

    def api_key(self) -> str | None:
        """The key from the environment; raises ``ConfigError`` where the named variable is not set."""
        return environment_key(self.url, self.api_key_env)


def environment_key(url: str, variable: str | None, named_by: str = "api_key_env") -> str | None:
    """The key for ``url`` that ``variable`` of the environment holds; None without one.

    ``named_by`` is the field that names it. Raises ``ConfigError`` where it is not set, or no header can
    carry it.
    """
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(f"{url}: {variable} is not set in the environment, and {named_by} names it")
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{url}: {variable} holds characters that no header can carry")
    return key


Api = Literal["chat", "completions"]
