"""The protocol of a score."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rbx.policy.ask import Ask
from rbx.policy.base import Needs
from rbx.policy.pool_state import PoolState
from rbx.policy.view import PoolView, Served

Floats = NDArray[np.float64]
Candidates = NDArray[np.bool_]


class InstanceScore(Protocol):
    """What one more request on each instance would mean; lower is better.

    One decision asks ``look`` once, then for each request in turn ``score`` and ``book``. The load of the
    pool comes with ``state``, which the policy keeps up to date as requests are placed.
    """

    @property
    def needs(self) -> Needs:
        """What it must be shown."""
        ...

    def look(self, view: PoolView, state: PoolState) -> None:
        """Take in the pool as the decision sees it."""
        ...

    def score(self, ask: Ask, candidates: Candidates, state: PoolState) -> Floats:
        """(I,), infinities allowed; anything but NaN where no candidate stands."""
        ...

    def book(self, ask: Ask, instance: int) -> None:
        """``ask`` goes to ``instance``."""
        ...

    def learn(self, served: Served) -> None:
        """Take in how earlier requests fared; called only if ``needs.served``."""
        ...


class OfTheState:
    """The part of a score that looks at the dead-reckoned state alone: it has nothing to remember."""

    needs = Needs()

    def look(self, view: PoolView, state: PoolState) -> None:
        """The state says all."""

    def book(self, ask: Ask, instance: int) -> None:
        """The state is kept by the policy."""

    def learn(self, served: Served) -> None:
        """Nothing: the decision looks at the present alone."""
