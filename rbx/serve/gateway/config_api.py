"""``/v1/config``: the configuration in force, and another in its place."""

from __future__ import annotations

import hmac
import ipaddress
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

import rbx
from rbx.errors import ConfigError
from rbx.serve.gateway.errors import ApiError
from rbx.serve.gateway.gateway import Gateway
from rbx.serve.gateway.incoming import ClientLeft, headers_of, read_body
from rbx.serve.gateway.reply import Reply
from rbx.serve.gateway.request import read_object
from rbx.serve.gateway.version import Version

# Whoever speaks through a proxy or from a web page is not this machine, whatever its address says.
_THROUGH_OTHERS = ("x-forwarded-for", "forwarded", "x-real-ip", "origin")


class ConfigEndpoint:
    """GET shows version, digest, configuration, pool and bundle; PUT replaces the first three, or nothing."""

    def __init__(self, gateway: Gateway, token: str | None) -> None:
        """``token`` is asked of everybody where there is one; without one only this machine may ask."""
        self._gateway = gateway
        self._token = token
        self._about = _about(gateway)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        reply = Reply(send)
        try:
            headers = headers_of(scope)
            self._authorize(scope, headers)
            if scope["method"] == "PUT":
                version = await self._replaced(read_object(await read_body(receive, headers)), headers)
            else:
                version = self._gateway.versions.current
        except ApiError as error:
            await reply.refuse(error, {})
        except ClientLeft:
            return
        else:
            told = {"content-type": "application/json", "etag": f'"{version.label}"'}
            await reply.whole(200, told, orjson.dumps({**_shown(version), **self._about}))

    def _authorize(self, scope: Scope, headers: dict[str, str]) -> None:
        if self._token is None:
            if _from_here(scope) and not any(name in headers for name in _THROUGH_OTHERS):
                return
            message = "without a token the configuration is open to this machine alone"
            raise ApiError(403, message, code="forbidden")
        given = headers.get("authorization", "").encode("latin-1")
        if not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            raise ApiError(
                401,
                "a valid bearer token is needed",
                code="unauthorized",
                headers={"www-authenticate": "Bearer"},
            )

    async def _replaced(self, data: dict[str, Any], headers: dict[str, str]) -> Version:
        expected = headers.get("if-match", "").strip().strip('"') or None
        configs = self._gateway.metrics.configs
        try:
            version = await self._gateway.versions.replace(data, expected)
        except ConfigError as error:
            configs.labels("refused").inc()
            raise ApiError(400, str(error), param=_first_key(str(error)), code="invalid_config") from None
        if version is None:
            configs.labels("outdated").inc()
            message = f"version {expected} is not in force any more"
            raise ApiError(412, message, code="outdated")
        configs.labels("applied").inc()
        return version


def _first_key(faults: str) -> str | None:
    """The key of the first fault of a list as ``rbx.config.base.parse`` writes it."""
    lines = [line for line in faults.splitlines() if line.startswith("  ")]
    return lines[0].strip().partition(":")[0] if lines else None


def _from_here(scope: Scope) -> bool:
    client = scope.get("client")
    if client is None:
        return True  # a Unix socket
    try:
        return ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False


def _shown(version: Version) -> dict[str, Any]:
    return {
        "version": version.number,
        "label": version.label,
        "digest": version.digest,
        "policy": version.policy.label,
        "config": version.config.model_dump(mode="json"),
    }


def _about(gateway: Gateway) -> dict[str, Any]:
    """What no configuration changes: whoever measures here wants to know that it is what they think."""
    pool, bundle = gateway.pool, gateway.bundle
    return {
        "rbx": rbx.__version__,
        "pool": {
            "name": pool.name,
            "digest": pool.digest,
            "instances": [
                {"name": instance.name, "tier": instance.tier.name, "model": instance.tier.model}
                for instance in pool.instances
            ],
        },
        "bundle": None if bundle is None else {"digest": bundle.digest},
    }
