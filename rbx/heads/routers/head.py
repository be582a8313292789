"""What every trained router offers once it is trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rbx.heads.encoder import Embeddings

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]


class AskedPrompts(NamedTuple):
    """P prompts as a router may read them: ``texts`` (P,), and their unit ``embeddings`` (P, dim).

    ``sources`` (P,) name the data sets that the prompts are from; None behind a gateway, where nobody knows.
    """

    texts: Sequence[str]
    embeddings: Embeddings
    sources: Sequence[str] | None = None


class RouterHead(Protocol):
    """Scores models for prompts; the highest score is its choice, before any threshold.

    ``described`` is plain data (settings and what was chosen on held-out prompts), ``arrays`` what else it
    needs; ``restore`` of its module makes the head of both.
    """

    @property
    def models(self) -> tuple[str, ...]:
        """The model axis of its scores."""
        ...

    @property
    def described(self) -> dict[str, Any]:
        """Settings, as plain data."""
        ...

    @property
    def arrays(self) -> Arrays:
        """Parameters."""
        ...

    def score(self, prompts: AskedPrompts) -> Floats:
        """Scores (P, M) for P prompts."""
        ...
