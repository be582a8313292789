"""A routed policy: a router picks the model, a dispatcher the replica."""

from __future__ import annotations

import numpy as np

from rbx.config.dispatch import Dispatch
from rbx.policy.base import Assignment, Ints, Needs
from rbx.policy.dispatch import DISPATCH_CODES, dispatch_batch
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.routers import Router
from rbx.policy.view import PoolView, Served


class Routed:
    """Router × dispatcher on the same batching, telemetry and dead reckoning as the fused policy."""

    def __init__(
        self,
        router: Router,
        dispatcher: Dispatch,
        shape: PoolShape,
        n_models: int,
        rng: np.random.Generator,
    ) -> None:
        """``rng`` drives the random dispatcher and nothing else."""
        self.needs = Needs(predictions=router.needs_predictions)
        self.router: Router = router  # may change between batches
        self._code = DISPATCH_CODES[dispatcher]
        self._shape = shape
        self._rng = rng
        self._turn = np.zeros(n_models + 1, dtype=np.int64)
        self._sequence = 0

    def assign(self, requests: Ints, table: RequestTable, view: PoolView, state: PoolState) -> Assignment:
        """See ``Policy.assign``."""
        n = len(requests)
        instance, cap, length = dispatch_batch(
            self._code,
            self.router.choose(requests, table),
            self._rng.random(n),
            self._turn,
            requests,
            table,
            self._shape,
            self._sequence,
            state,
        )
        self._sequence += n
        quality = np.where(instance >= 0, table.quality[requests, self._shape.model[instance]], np.nan)
        return Assignment.without_ttft(instance, cap, quality, length, np.full(n, np.nan))

    def learn(self, served: Served) -> None:
        """Nothing: the decision looks at the present alone."""
