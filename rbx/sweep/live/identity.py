"""Who answers: models, versions and limits of every server of a cell, checked against the experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class ServerIdentity:
    """One server as it describes itself; None for what it does not tell."""

    url: str
    models: tuple[str, ...]
    max_model_len: int | None = None
    version: str | None = None
    simulated: bool = False


@dataclass(frozen=True)
class Identity:
    """The target and the servers behind it that are known, by instance name.

    ``pool`` and ``bundle`` are the digests that a gateway of ours works with.
    """

    kind: str
    url: str
    models: tuple[str, ...]
    version: str | None = None
    pool: str | None = None
    bundle: str | None = None
    servers: Mapping[str, ServerIdentity] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """For the cell's summary."""
        return asdict(self)
