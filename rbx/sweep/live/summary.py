"""What the file of a live cell says beyond its counts: who served it, how the client fared, may it count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Matches:
    """Served answers of one tier that had a text of the grid to be compared with, and how many were it."""

    compared: int
    matched: int


@dataclass(frozen=True)
class Lengths:
    """Complete answers of one tier: output tokens expected and delivered in all, and how many fell short.

    ``short`` counts answers of less than nine tenths of the expected tokens.
    """

    answers: int
    asked_tokens: int
    delivered_tokens: int
    short: int


@dataclass(frozen=True)
class PrefixCache:
    """Prompt tokens looked up and found in the servers' prefix caches during the cell.

    ``missing`` names servers whose pages have no such counters, or went back.
    """

    policy: str  # salt | reset | keep
    queries: float
    hits: float
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class LiveSummary:
    """``reasons`` say why the cell counts for nothing, ``warnings`` what to beware of where it does.

    ``fault`` is the kind of fault that kept the cell from being run (``rbx.sweep.live.fault``). ``client``
    holds the figures of ``rbx.load.client``'s health, ``warm_up`` requests of the warm-up by status.
    ``simulated`` says that mock servers answered, at ``time_scale`` simulated seconds a second.
    ``table_sha256`` is the digest of ``live/CELL.parquet``; None in sweeps of releases that kept none.
    """

    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    fault: str | None
    simulated: bool
    time_scale: float | None
    started: str
    config_version: str | None
    client: dict[str, float | int | None]
    warm_up: dict[str, int]
    prefix_cache: PrefixCache | None
    matches: dict[str, Matches] = field(default_factory=dict)
    lengths: dict[str, Lengths] = field(default_factory=dict)
    target: dict[str, Any] = field(default_factory=dict)
    identity: dict[str, Any] = field(default_factory=dict)
    table_sha256: str | None = None

    @property
    def valid(self) -> bool:
        """Whether the cell counts."""
        return not self.reasons
