"""Routers that pick a model without looking at the prompt: always, random, mix, passthrough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rbx.policy.base import Floats, Ints
from rbx.policy.request_table import RequestTable

ANY_MODEL = -1


class Router(Protocol):
    """Picks a model index for each request, or ``ANY_MODEL`` to leave it to the dispatcher."""

    @property
    def needs_predictions(self) -> bool:
        """Whether the prompt must be encoded before deciding."""
        ...

    def choose(self, requests: Ints, table: RequestTable) -> Ints:
        """Model index (B,) for rows ``requests`` of ``table``."""
        ...


@dataclass(frozen=True)
class Fixed:
    """The same model for every request; ``ANY_MODEL`` makes it the passthrough."""

    model: int

    @property
    def needs_predictions(self) -> bool:
        """Blind to the prompt."""
        return False

    def choose(self, requests: Ints, table: RequestTable) -> Ints:
        """See ``Router.choose``."""
        return np.full(len(requests), self.model, dtype=np.int64)


@dataclass(frozen=True)
class PromptBlindMix:
    """A model drawn with fixed shares (M,) for each request."""

    shares: Floats
    rng: np.random.Generator

    @property
    def needs_predictions(self) -> bool:
        """Blind to the prompt."""
        return False

    def choose(self, requests: Ints, table: RequestTable) -> Ints:
        """See ``Router.choose``."""
        edges = np.cumsum(self.shares / self.shares.sum())
        edges[-1] = 1.0  # the sum may end just below 1, and a draw may fall in the gap
        return np.searchsorted(edges, self.rng.random(len(requests)), side="right").astype(np.int64)
