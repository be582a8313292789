"""A request that the gateway has taken on, with all that decides how it is served."""

from __future__ import annotations

from dataclasses import dataclass

from rbx.serve.gateway.request import Asked
from rbx.serve.gateway.version import Version


@dataclass(frozen=True)
class Admitted:
    """``row`` is its row in the version's table; ``e2e_s`` and ``ttft_s`` are targets, infinite for none."""

    id: str
    asked: Asked
    version: Version
    row: int
    arrived_s: float
    max_tokens: int
    ttft_s: float
    e2e_s: float
