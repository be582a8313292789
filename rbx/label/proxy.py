"""The proxy that the environment names for an address."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from rbx.config.endpoint import host_fault
from rbx.errors import ConfigError


def environment_proxy(url: str) -> str | None:
    """The proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for ``url``; a loopback address has none.

    Raises ``ConfigError`` where the variable names no HTTP proxy; its value, which may hold a password, is
    not repeated.
    """
    parts = urlsplit(url)
    if parts.hostname is None or _is_loopback(parts.hostname) or proxy_bypass(parts.hostname):
        return None
    proxy = getproxies().get(parts.scheme)
    if not proxy:
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    fault = _fault(proxy)
    if fault:
        variable = f"{parts.scheme}_proxy"
        raise ConfigError(
            f"{url}: the environment variable {variable} names no proxy that can be used ({fault}); correct "
            f"it, or name {parts.hostname} in no_proxy"
        )
    return proxy


def proxy_place(proxy: str) -> str:
    """Host and port of a proxy, without the password that its address may hold."""
    return urlsplit(proxy).netloc.rpartition("@")[2]


def _fault(proxy: str) -> str | None:
    try:
        parts: SplitResult = urlsplit(proxy)
    except ValueError:
        return "it is no address"
    if parts.scheme not in ("http", "https"):
        return f"scheme {parts.scheme!r} is none of http and https"
    return host_fault(parts)


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
