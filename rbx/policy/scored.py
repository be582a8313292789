"""A routed policy whose dispatcher scores the instances one request at a time."""

from __future__ import annotations

from rbx.policy.ask import asks
from rbx.policy.base import Assignment, Ints, Needs
from rbx.policy.candidates import highest, possible
from rbx.policy.dispatchers.instance_score import InstanceScore
from rbx.policy.placing import Placing
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.routers import ANY_MODEL, Router
from rbx.policy.view import PoolView, Served


class ScoredDispatch:
    """Router × score on the same batching, telemetry and dead reckoning as every other policy.

    The lowest score wins; ties go to the shorter queue, then to the least recently used.
    """

    def __init__(self, router: Router, score: InstanceScore, shape: PoolShape) -> None:
        """Bind a router and a score to a pool."""
        shown = score.needs
        predictions = shown.predictions or router.needs_predictions
        self.needs = Needs(predictions, snapshots=shown.snapshots, served=shown.served)
        self.router: Router = router  # may change between batches
        self._score = score
        self._shape = shape
        self._sequence = 0

    def assign(self, requests: Ints, table: RequestTable, view: PoolView, state: PoolState) -> Assignment:
        """See ``Policy.assign``."""
        shape = self._shape
        self._score.look(view, state)
        wanted = self.router.choose(requests, table).tolist()
        placing = Placing.of(len(requests), shape, state, self._sequence)
        for ask, model in zip(asks(requests, table, view, shape), wanted, strict=True):
            candidates = possible(ask.input_tokens, shape, state)
            if model != ANY_MODEL:
                candidates = candidates & (shape.model == model)
            if not candidates.any():
                continue
            best = highest(-self._score.score(ask, candidates, state), candidates, state)
            placing.put(ask, best)
            self._score.book(ask, best)
        self._sequence = placing.sequence
        return placing.answer

    def learn(self, served: Served) -> None:
        """Hand it to the score."""
        self._score.learn(served)
