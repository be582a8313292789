"""The endpoints file: where each instance of a pool answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

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
        """In the order of the pool's instances; raises ``ConfigError`` where the names are not the pool's."""
        names = [instance.name for instance in pool.instances]
        lacking = [name for name in names if name not in self.instances]
        unknown = sorted(set(self.instances) - set(names))
        if lacking or unknown:
            what = [f"no endpoint for {', '.join(lacking)}"] if lacking else []
            what += [f"{', '.join(unknown)} is not in pool {pool.name}"] if unknown else []
            raise ConfigError(f"endpoints: {'; '.join(what)}; its instances are {', '.join(names)}")
        return tuple(self.instances[name] for name in names)

    def as_yaml(self) -> str:
        """The file that ``load_endpoints`` reads back as these."""
        return yaml.safe_dump(self.model_dump(mode="json", exclude_none=True), sort_keys=False)


def load_endpoints(path: Path, overrides: list[str] | None = None) -> Loaded[Endpoints]:
    """Read and validate an endpoints file; raises ``ConfigError`` with every fault."""
    return load(Endpoints, path, overrides)
