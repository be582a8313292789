"""The protocol of a TTFT estimator."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rbx.policy.base import Needs
from rbx.policy.pool_state import PoolState
from rbx.policy.view import PoolView, Served

Floats = NDArray[np.float64]


class TtftEstimator(Protocol):
    """Time to first token of one more request on each instance, from where the pool stands now.

    One decision asks ``look`` once, then for each request in turn ``ttft_s`` and ``book``.
    """

    @property
    def needs(self) -> Needs:
        """What it must be shown; ``predictions`` is the policy's own affair."""
        ...

    def look(self, view: PoolView, state: PoolState) -> None:
        """Take in the pool as the decision sees it."""
        ...

    def ttft_s(
        self, input_tokens: int, candidates: NDArray[np.bool_], state: PoolState, within_s: float = np.inf
    ) -> Floats:
        """Seconds from ``view.enters_s`` to the first token (I,); anything where no candidate stands.

        Whoever asks ``within_s`` only wants to know which are within it: those beyond may be infinite.
        """
        ...

    def book(self, instance: int, input_tokens: int, max_tokens: int, length_tokens: float) -> None:
        """A request of this decision goes to ``instance`` and stands before those that follow."""
        ...

    def learn(self, served: Served) -> None:
        """Take in how earlier requests fared; called only if ``needs.served``."""
        ...
