"""A policy for requests that do not all have the same rights: restrictions and weights, request by request.

Policies read who may be chosen from ``PoolState.alive`` and their weights once a batch. So a batch is
split into groups of equal rights, which are assigned one after the other, each seeing what the ones
before it have booked; it stays one decision. A batch of equal rights is assigned as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from rbx.config.policy import Weights
from rbx.policy.base import Assignment, Ints, Needs, Policy
from rbx.policy.filters.filtered import Filtered
from rbx.policy.in_turn import decide_in_turn
from rbx.policy.pool_state import PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.routebalance import RouteBalance
from rbx.policy.routed import Routed
from rbx.policy.routers import ANY_MODEL, Fixed
from rbx.policy.scored import ScoredDispatch
from rbx.policy.view import PoolView, Served
from rbx.serve.gateway.live_table import LiveTable

Group = tuple[bytes, bool, Weights | None]


class RestrictedPolicy:
    """``policy`` among those of ``alive`` (I,) that a request may go to; ``fallback`` while ``degraded``."""

    def __init__(self, policy: Policy, fallback: Policy, live: LiveTable) -> None:
        """Everything is alive until the owner says otherwise."""
        self.needs: Needs = policy.needs
        self.alive: NDArray[np.bool_] = np.ones(live.allowed.shape[1], dtype=np.bool_)
        self.degraded = False
        self._policy = policy
        self._decides = policy.policy if isinstance(policy, Filtered) else policy
        self._fallback = fallback
        self._live = live

    def assign(self, requests: Ints, table: RequestTable, view: PoolView, state: PoolState) -> Assignment:
        """See ``Policy.assign``."""
        groups: dict[Group, list[int]] = {}
        for position, row in enumerate(requests.tolist()):
            groups.setdefault(self._rights(row), []).append(position)
        if len(groups) == 1:
            return self._of_equal_rights(requests, table, view, state)

        def of_group(positions: Sequence[int], seen: PoolView) -> Assignment:
            return self._of_equal_rights(requests[positions], table, seen, state)

        return decide_in_turn(groups.values(), of_group, requests, table, view)

    def learn(self, served: Served) -> None:
        """See ``Policy.learn``."""
        self._policy.learn(served)

    def _rights(self, row: int) -> Group:
        live = self._live
        return live.allowed[row].tobytes(), bool(live.named[row]), live.weights.get(row)

    def _of_equal_rights(
        self, requests: Ints, table: RequestTable, view: PoolView, state: PoolState
    ) -> Assignment:
        row = int(requests[0])
        state.alive[:] = self.alive & self._live.allowed[row]
        if self.degraded:
            return self._fallback.assign(requests, table, view, state)
        with (
            _weighted(self._decides, self._live.weights.get(row)),
            _unrouted(self._decides, bool(self._live.named[row])),
        ):
            return self._policy.assign(requests, table, view, state)


@contextmanager
def _weighted(policy: Policy, weights: Weights | None) -> Iterator[None]:
    """RouteBalance under other weights; its turn among equals and its estimator stay the same."""
    if weights is None or not isinstance(policy, RouteBalance):
        yield
        return
    own, policy.weights = policy.weights, np.array(weights)
    try:
        yield
    finally:
        policy.weights = own


@contextmanager
def _unrouted(policy: Policy, named: bool) -> Iterator[None]:
    """A routed policy without its router: whoever names a model needs its dispatcher alone."""
    if not named or not isinstance(policy, (Routed, ScoredDispatch)):
        yield
        return
    own, policy.router = policy.router, Fixed(ANY_MODEL)
    try:
        yield
    finally:
        policy.router = own
