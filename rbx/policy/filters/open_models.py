"""A router behind a filter: it chooses among the models that still have a candidate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.policy.base import Ints
from rbx.policy.request_table import RequestTable
from rbx.policy.routers import ANY_MODEL, Router


class AmongOpenModels:
    """``router``, overruled where no candidate of the model that it wants is left.

    A router that reads the prompt then gets the open model of the highest score, its own or else the
    predicted quality, which also tells apart those that its score does not: who routes by category scores
    nobody but its choice. For a router that does not read it, the dispatcher chooses among all that are left.
    The router is asked about the whole batch at once, so that one that draws or learns goes on as it would
    alone.
    """

    def __init__(self, router: Router, n_models: int) -> None:
        """Every model open."""
        self.router = router
        self.open: NDArray[np.bool_] = np.ones(n_models, dtype=np.bool_)
        self._wanted: dict[int, int] = {}

    @property
    def needs_predictions(self) -> bool:
        """As the router."""
        return self.router.needs_predictions

    def look(self, requests: Ints, table: RequestTable) -> None:
        """Ask the router about a batch, whose requests are then asked for one by one."""
        wanted = self.router.choose(requests, table)
        self._wanted = dict(zip(requests.tolist(), wanted.tolist(), strict=True))

    def choose(self, requests: Ints, table: RequestTable) -> Ints:
        """See ``Router.choose``, for requests of the batch last looked at."""
        wanted = np.array([self._wanted[row] for row in requests.tolist()])
        closed = (wanted != ANY_MODEL) & ~self.open[wanted]
        if not closed.any():
            return wanted
        if not (self.router.needs_predictions and self.open.any()):
            return np.where(closed, ANY_MODEL, wanted)
        quality = table.quality[requests]
        score = table.router_score[requests] if table.router_score.size else quality
        left = np.where(self.open, score, -np.inf)
        highest = left == left.max(axis=1, keepdims=True)
        best = np.where(highest, quality, -np.inf).argmax(axis=1)
        return np.where(closed, best, wanted)
