"""What every trained router offers once it is trained."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rbx.heads.encoder import Embeddings

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]


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

    def score(self, embeddings: Embeddings) -> Floats:
        """Scores (P, M) for unit ``embeddings`` (P, dim)."""
        ...
