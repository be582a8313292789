"""Prefix caches: no cell is to inherit what another one has warmed, and what it hit is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


def salt(cell_id: str) -> dict[str, str]:
    """What a cell adds to every body so that it hits no other cell's blocks (vLLM's ``cache_salt``)."""
    return {"cache_salt": f"rbx-{cell_id}"}


@dataclass(frozen=True)
class PrefixHits:
    """Tokens looked up and found in the servers' prefix caches between two looks at their counters.

    ``missing`` names the servers without such counters, ``restarted`` those whose counters went back: both
    are left out of the sums.
    """

    queries: float
    hits: float
    missing: tuple[str, ...]
    restarted: tuple[str, ...]

    @property
    def rate(self) -> float | None:
        """Share of the tokens that were found; None where none were looked up."""
        return self.hits / self.queries if self.queries > 0 else None


def prefix_hits(before: Mapping[str, str], after: Mapping[str, str]) -> PrefixHits:
    """What the counters on pages of ``/metrics`` (by instance) have grown by."""
    raise NotImplementedError
