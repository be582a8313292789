"""``/v1/config``: the configuration in force, and another in its place."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Sequence
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

import rbx
from rbx.config.endpoints import InstanceEndpoint
from rbx.errors import ConfigError
from rbx.serve.gateway.errors import ApiError, invalid
from rbx.serve.gateway.gateway import Gateway
from rbx.serve.gateway.incoming import ClientLeft, Intake, headers_of
from rbx.serve.gateway.reply import Reply
from rbx.serve.gateway.request import read_object
from rbx.serve.gateway.version import Version

MAX_BODY_BYTES = 2**16
_PLACE = {"url", "served_name", "metrics_url"}  # and nothing of keys
# Whoever speaks through a proxy or from a web page is not this machine, whatever its address says.
_THROUGH_OTHERS = (
    "via",
    "forwarded",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "origin",
)
_PROXYS_OWN = "x-forwarded-"
_PORT = re.compile(r":[0-9]*\Z")
_TAG = re.compile(r'(W/)?"([!\x23-\x7e\x80-\xff]*)"')


class ConfigEndpoint:
    """GET shows version, digest, configuration, pool and bundle; PUT replaces the first three, or nothing."""

    def __init__(
        self, gateway: Gateway, intake: Intake, token: str | None, endpoints: Sequence[InstanceEndpoint]
    ) -> None:
        """``token`` is asked of everybody where there is one; without one only this machine may ask.

        ``endpoints`` follow the pool's instances, or are empty.
        """
        self._gateway = gateway
        self._intake = intake
        self._token = token
        self._about = _about(gateway, endpoints)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        reply = Reply(send)
        try:
            headers = headers_of(scope)
            self._authorize(scope, headers)
            if scope["method"] == "PUT":
                version = await self._put(receive, headers, if_match(scope))
            else:
                version = self._gateway.versions.current
        except ApiError as error:
            await reply.refuse(error, {})
        except ClientLeft:
            return
        else:
            told = {"content-type": "application/json", "etag": f'"{version.label}"'}
            await reply.whole(200, told, orjson.dumps({**self._shown(version), **self._about}))

    def _authorize(self, scope: Scope, headers: dict[str, str]) -> None:
        if self._token is None:
            if _from_here(scope) and not _through_others(headers):
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

    async def _put(
        self, receive: Receive, headers: dict[str, str], expected: frozenset[str] | None
    ) -> Version:
        raw = await self._intake.body(receive, headers, MAX_BODY_BYTES)
        try:
            return await self._replaced(read_object(raw), expected)
        finally:
            self._intake.let_go(len(raw))

    async def _replaced(self, data: dict[str, Any], expected: frozenset[str] | None) -> Version:
        configs = self._gateway.metrics.configs
        try:
            version = await self._gateway.versions.replace(data, expected)
        except ConfigError as error:
            configs.labels("refused").inc()
            raise ApiError(400, str(error), param=_first_key(str(error)), code="invalid_config") from None
        if version is None:
            configs.labels("outdated").inc()
            raise ApiError(412, "the version in If-Match is not in force any more", code="outdated")
        configs.labels("applied").inc()
        return version

    def _shown(self, version: Version) -> dict[str, Any]:
        return {
            "version": version.number,
            "label": version.label,
            "digest": version.digest,
            "policy": version.policy.label,
            "config": version.config.model_dump(mode="json"),
            "effective": {
                "max_in_flight": self._gateway.room.most(version),
                "typical_prompt_tokens": version.prompt_tokens,
            },
        }


def if_match(scope: Scope) -> frozenset[str] | None:
    """The labels in ``If-Match``, of which one must be in force; None where it asks for nothing, or for any.

    Tags are compared strongly, so that a weak one matches nothing. Raises ``ApiError`` (400) for what is no
    list of entity tags (RFC 9110, 13.1.1).
    """
    given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"if-match"]
    if not given:
        return None
    field = ", ".join(given).strip(" \t")
    if field == "*":
        return None
    # Tags may hold commas. NUL stands in no header.
    rest = "".join(_TAG.sub("\0", field).split())
    if not set(rest) <= {"\0", ","} or "\0" not in rest or "\0\0" in rest:
        message = 'must be entity tags in double quotes, divided by commas, or *, such as "1-0123456789ab"'
        raise invalid("if-match", message)
    return frozenset(opaque for weak, opaque in _TAG.findall(field) if not weak)


def _through_others(headers: dict[str, str]) -> bool:
    """Whether a request went through a proxy, or was sent by a web page (``none``: by the user's own hand).

    A page that has its own name resolve to this machine is known by that name.
    """
    if any(name in _THROUGH_OTHERS or name.startswith(_PROXYS_OWN) for name in headers):
        return True
    return headers.get("sec-fetch-site", "none") != "none" or not _is_here(headers.get("host"))


def _is_here(host: str | None) -> bool:
    if not host:
        return True
    name = _PORT.sub("", host).strip("[]").lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


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


def _about(gateway: Gateway, endpoints: Sequence[InstanceEndpoint]) -> dict[str, Any]:
    """What no configuration changes: whoever measures here wants to know that it is what they think."""
    places = [endpoint.model_dump(mode="json", include=_PLACE) for endpoint in endpoints]
    pool, bundle = gateway.pool, gateway.bundle
    return {
        "rbx": rbx.__version__,
        "pool": {
            "name": pool.name,
            "digest": pool.digest,
            "instances": [
                {"name": instance.name, "tier": instance.tier.name, "model": instance.tier.model, **place}
                for instance, place in zip(pool.instances, places or [{}] * len(pool.instances), strict=True)
            ],
        },
        "bundle": None if bundle is None else {"digest": bundle.digest},
    }
