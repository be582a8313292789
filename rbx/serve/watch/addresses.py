"""Which pages of an instance are asked for, and with what key."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from rbx.config.endpoint import environment_key
from rbx.config.endpoints import InstanceEndpoint
from rbx.serve.state.remote import state_address


@dataclass(frozen=True)
class Addresses:
    """The pages of one instance; ``health`` is tried first, ``models`` where a server has no such page."""

    metrics: str
    health: str
    models: str
    state: str | None
    origin: tuple[str, str]
    authorization: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, endpoint: InstanceEndpoint) -> Addresses:
        """Raises ``ConfigError`` where the endpoint names a key that the environment lacks."""
        beside = endpoint.url.removesuffix("/v1")
        key = environment_key(endpoint.url, endpoint.api_key_env)
        return cls(
            metrics=endpoint.metrics_url or f"{beside}/metrics",
            health=f"{beside}/health",
            models=f"{endpoint.url}/models",
            state=state_address(endpoint.state_url) if endpoint.state_url else None,
            origin=_origin(endpoint.url),
            authorization=f"Bearer {key}" if key else None,
        )

    def headers(self, address: str) -> dict[str, str]:
        """Plain text, please; the key goes to the instance's own origin and nowhere else."""
        headers = {"Accept-Encoding": "identity"}
        if self.authorization and _origin(address) == self.origin:
            headers["Authorization"] = self.authorization
        return headers


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()
