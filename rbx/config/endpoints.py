"""The endpoints file: where each instance of a pool answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from pydantic import Field

from rbx.config.base import Loaded, StrictModel, Text, load
from rbx.config.endpoint import Address, EnvironmentName
from rbx.config.pool import Pool
from rbx.errors import ConfigError


class InstanceEndpoint(StrictModel):
    """One server: ``url`` is the API's base, such as ``http://10.0.0.1:8000/v1``.

    ``metrics_url`` is its Prometheus page, by default ``/metrics`` beside the API's base. ``state`` is the
    file or folder that the publishing scheduler writes, on the gateway's machine; ``state_url`` its
    endpoint inside the server.
    """

    url: Address
    served_name: Text | None = None  # the model's name in requests; default: the tier's model
    api_key_env: EnvironmentName | None = None
    metrics_url: Address | None = None
    state: Path | None = None
    state_url: Address | None = None


class Endpoints(StrictModel):
    """Instances by their name in the pool, such as ``72b-a100x4/0``."""

    instances: Mapping[str, InstanceEndpoint] = Field(min_length=1)

    def of(self, pool: Pool) -> tuple[InstanceEndpoint, ...]:
        """In the order of the pool's instances.

        Raises ``ConfigError`` where the names are not the pool's, or one server would be two instances of a
        model: its seats and its load would count twice.
        """
        names = [instance.name for instance in pool.instances]
        lacking = [name for name in names if name not in self.instances]
        unknown = sorted(set(self.instances) - set(names))
        if lacking or unknown:
            what = [f"no endpoint for {', '.join(lacking)}"] if lacking else []
            what += [f"{', '.join(unknown)} is not in pool {pool.name}"] if unknown else []
            raise ConfigError(f"endpoints: {'; '.join(what)}; its instances are {', '.join(names)}")
        self._refuse_shared(pool)
        return tuple(self.instances[name] for name in names)

    def _refuse_shared(self, pool: Pool) -> None:
        """A server of several models may be an instance of each."""
        sharing: defaultdict[tuple[Any, str], list[str]] = defaultdict(list)
        for instance in pool.instances:
            endpoint = self.instances[instance.name]
            model = endpoint.served_name or instance.tier.model
            sharing[_server(endpoint.url), model].append(instance.name)
        faults = [
            f"{', '.join(names[:-1])} and {names[-1]} are one server of {model}, "
            f"{self.instances[names[0]].url}"
            for (_, model), names in sharing.items()
            if len(names) > 1
        ]
        if faults:
            raise ConfigError(f"endpoints: {'; '.join(faults)}; each instance needs a server of its own")

    def as_yaml(self) -> str:
        """The file that ``load_endpoints`` reads back as these."""
        return yaml.safe_dump(self.model_dump(mode="json", exclude_none=True), sort_keys=False)


def _server(url: str) -> tuple[str, str | None, int, str]:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.scheme, parts.hostname, port, parts.path


def load_endpoints(path: Path, overrides: list[str] | None = None) -> Loaded[Endpoints]:
    """Read and validate an endpoints file; raises ``ConfigError`` with every fault."""
    return load(Endpoints, path, overrides)
