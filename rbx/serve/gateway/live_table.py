"""The requests now in the gateway as a policy sees them: rows of a request table, used again and again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.config.policy import Weights
from rbx.policy.request_table import RequestTable


class LiveTable:
    """``columns`` is the table that policies read; beside it stands what a client asked of its own request.

    ``allowed`` (N, I) says which instances a request may go to, ``weights`` and ``named`` (its model was
    named) hold what departs from the policy's own rule, by row.
    """

    def __init__(self, rows: int, n_instances: int, n_models: int) -> None:
        """All rows free."""
        self.columns = RequestTable(
            input_tokens=np.ones(rows, dtype=np.int64),
            max_tokens=np.ones(rows, dtype=np.int64),
            budget_usd=np.full(rows, np.inf),
            quality=np.zeros((rows, n_models)),
            length_tokens=np.ones((rows, n_models)),
            ttft_target_s=np.full(rows, np.inf),
            router_score=np.zeros((rows, n_models)),
        )
        self.allowed: NDArray[np.bool_] = np.ones((rows, n_instances), dtype=np.bool_)
        self.named: NDArray[np.bool_] = np.zeros(rows, dtype=np.bool_)
        self.weights: dict[int, Weights] = {}
        self.texts: dict[int, str] = {}
        # The lowest row first, and the row that was freed last again first: what is in use stays small.
        self._free = list(range(rows - 1, -1, -1))

    @property
    def free_rows(self) -> int:
        """How many more requests fit."""
        return len(self._free)

    def take(
        self, text: str, input_tokens: int, max_tokens: int, budget_usd: float, ttft_target_s: float
    ) -> int:
        """A row for a request that any instance may serve; raises ``IndexError`` when none is free."""
        row = self._free.pop()
        columns = self.columns
        columns.input_tokens[row], columns.max_tokens[row] = input_tokens, max_tokens
        columns.budget_usd[row], columns.ttft_target_s[row] = budget_usd, ttft_target_s
        self.texts[row] = text
        self.allowed[row] = True
        self.named[row] = False
        return row

    def predict(
        self,
        row: int,
        quality: NDArray[np.float64],
        length_tokens: NDArray[np.float64],
        router_score: NDArray[np.float64],
    ) -> None:
        """Set what is predicted of ``row``, (M,) each."""
        self.columns.quality[row] = quality
        self.columns.router_score[row] = router_score
        self.columns.length_tokens[row] = np.maximum(length_tokens, 1.0)

    def free(self, row: int) -> None:
        """The request has ended."""
        del self.texts[row]
        self.weights.pop(row, None)
        self._free.append(row)
