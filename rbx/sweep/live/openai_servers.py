"""A target of which nothing is known but its API: any OpenAI-compatible endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rbx.config.endpoint import environment_key
from rbx.config.endpoints import InstanceEndpoint
from rbx.config.live import OpenAiTarget
from rbx.config.policy import ExternalPolicy, SinglePolicy
from rbx.errors import ConfigError
from rbx.serve.watch.addresses import Addresses
from rbx.sweep.live.asking import Asker, bearer
from rbx.sweep.live.fault import TargetFault
from rbx.sweep.live.identity import Identity, ServerIdentity, told_version
from rbx.sweep.live.prefix_cache import reset_all
from rbx.sweep.live.readiness import NOBODY_S, Tell, await_endpoint, gone, unheard
from rbx.sweep.live.server_pages import fetch_pages
from rbx.sweep.live.target import Installed

NAME = "endpoint"  # of the one server in pages and identities


class OpenAiServers:
    """See ``LiveTarget``."""

    traced = False

    def __init__(self, config: OpenAiTarget, asker: Asker, ready_s: float) -> None:
        """Raises ``ConfigError`` where the key is not in the environment."""
        self._config, self._asker, self._ready_s = config, asker, ready_s
        self._endpoint = InstanceEndpoint(url=config.url.rstrip("/"), api_key_env=config.api_key_env)
        self._addresses = Addresses.of(self._endpoint)
        self._identity: ServerIdentity | None = None
        self.url = self._endpoint.url
        self.key = environment_key(self.url, config.api_key_env)
        self.model = config.model
        self.endpoints: Mapping[str, InstanceEndpoint] = {}

    @property
    def simulated(self) -> bool:
        """See ``LiveTarget``."""
        return self._identity is not None and self._identity.simulated

    @property
    def time_scale(self) -> float | None:
        """See ``LiveTarget``."""
        return None if self._identity is None else self._identity.time_scale

    async def ready(self, tell: Tell = unheard) -> None:
        """See ``LiveTarget``."""
        await await_endpoint(
            self._asker, self.url, self.key, self.model, self._ready_s, nobody_s=NOBODY_S, tell=tell
        )

    async def identity(self) -> Identity:
        """See ``LiveTarget``."""
        listed = await await_endpoint(self._asker, self.url, self.key, self.model, 0.0)
        version, time_scale = await told_version(self._asker, self._addresses)
        length = listed.max_model_len[self.model]
        self._identity = ServerIdentity(self.url, listed.names, length, version, time_scale)
        return Identity("openai", self.url, listed.names, version, servers={NAME: self._identity})

    async def install(self, policy: SinglePolicy) -> Installed:
        """Nothing is changed; raises ``ConfigError`` for any policy but an external one."""
        if not isinstance(policy, ExternalPolicy):
            raise ConfigError(
                f"policy {policy.label}: what decides behind {self.url} is not ours to change; take "
                "kind: external, or a gateway as target"
            )
        return Installed(policy.label)

    async def drained(self, within_s: float) -> bool:
        """Nobody tells."""
        return True

    async def lost(self) -> str | None:
        """See ``LiveTarget``; a server that has come to serve another model is not the one that was asked."""
        if why := await gone(self._asker, f"{self.url}/models", bearer(self.key), errors_too=True):
            return why
        try:
            await await_endpoint(self._asker, self.url, self.key, self.model, 0.0)
        except TargetFault as fault:
            return str(fault) if fault.kind == "wrong_model" else None
        return None

    async def reset_prefix_caches(self) -> tuple[str, ...]:
        """See ``LiveTarget``."""
        return await reset_all(self._asker, {NAME: self._endpoint})

    async def pages(self) -> dict[str, str]:
        """Of a server that has such a page."""
        return await fetch_pages(self._asker, {NAME: self._addresses})

    def describe(self) -> dict[str, Any]:
        """See ``LiveTarget``."""
        return {"kind": "openai", "url": self.url, "model": self.model}
