"""When a batch closes: at its size or its window, whichever comes first (docs/decisions.md)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.config.experiment import Batching

# Share of busy instances below which (size, window) applies: the table of the RouteBalance authors.
ADAPTIVE_TABLE = ((0.3, 4, 0.05), (0.7, 16, 0.1), (np.inf, 32, 0.2))


@dataclass(frozen=True)
class _Limit:
    size: int
    window_s: float


def largest_batch(config: Batching) -> int:
    """Most requests that one batch may hold."""
    return config.max_size if config.mode == "fixed" else max(size for _, size, _ in ADAPTIVE_TABLE)


class BatchFormer:
    """The queue in front of the decision, and the rule that closes a batch."""

    def __init__(self, config: Batching) -> None:
        """Start with the limits of an idle pool."""
        self._config = config
        self._queue: deque[tuple[int, float, float]] = deque()  # request, when it came here, its arrival
        self._free_s = 0.0
        self._limit = _Limit(config.max_size, config.window_s)
        self._busy_share = 0.0
        self.observe(0.0)

    def __len__(self) -> int:
        """Requests waiting for a decision."""
        return len(self._queue)

    def add(self, request: int, now_s: float, arrived_s: float | None = None) -> None:
        """A request comes to the queue, at its arrival or later; ``now_s`` never goes back."""
        self._queue.append((request, now_s, now_s if arrived_s is None else arrived_s))

    def withdraw(self, request: int) -> None:
        """Forget a request that waits, if it does."""
        self._queue = deque(entry for entry in self._queue if entry[0] != request)

    def observe(self, busy_share: float) -> None:
        """Set the next batch's limits from the share of instances with a waiting queue."""
        self._busy_share = busy_share
        if self._config.mode == "adaptive":
            size, window_s = next((s, w) for below, s, w in ADAPTIVE_TABLE if busy_share < below)
            self._limit = _Limit(size, window_s)

    def hold_until(self, free_s: float) -> None:
        """No batch closes before ``free_s``: the decision loop is serial."""
        self._free_s = free_s

    def closes_s(self) -> float:
        """When the next batch closes if nobody else arrives; infinite while the queue is empty."""
        if not self._queue:
            return np.inf
        if len(self._queue) >= self._limit.size:
            due_s = self._queue[self._limit.size - 1][1]
        elif self._config.eager and self._busy_share == 0.0:
            due_s = self._queue[0][1]
        else:
            due_s = self._queue[0][1] + self._limit.window_s
        return max(due_s, self._free_s)

    def take(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Close the batch: its requests in the order they came to the queue, and when each arrived."""
        n = min(len(self._queue), self._limit.size)
        taken = [self._queue.popleft() for _ in range(n)]
        requests, _, arrived_s = zip(*taken, strict=True)
        return np.array(requests, dtype=np.int64), np.array(arrived_s)
