"""Dispatched requests that telemetry does not show yet.

A snapshot is older than the newest dispatches: they are on the wire, or the scrape came before
them. Without the ledger two quick batches book the same free slot twice (herding).
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from rbx.engine.telemetry import PoolTelemetry
from rbx.policy.candidates import book
from rbx.policy.pool_state import PoolShape, PoolState

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Ledger:
    """Per instance, the dispatches in order; a snapshot that has received n of them shows the first n."""

    def __init__(self, shape: PoolShape) -> None:
        """An empty ledger for the instances of ``shape``."""
        self._shape = shape
        self._unseen: list[deque[tuple[int, float]]] = [deque() for _ in range(shape.n_instances)]
        self._dispatched = np.zeros(shape.n_instances, dtype=np.int64)

    def add(self, instance: Ints, input_tokens: Ints, length_tokens: Floats) -> None:
        """Note dispatches; entries with a negative instance are skipped."""
        for i, tokens_in, length in zip(
            instance.tolist(), input_tokens.tolist(), length_tokens.tolist(), strict=True
        ):
            if i >= 0:
                self._unseen[i].append((tokens_in, length))
                self._dispatched[i] += 1

    def apply(self, telemetry: PoolTelemetry, state: PoolState) -> None:
        """Drop what the snapshot shows and book the rest into ``state``, keeping its last uses."""
        for i, entries in enumerate(self._unseen):
            if not entries:
                continue
            unseen = max(int(self._dispatched[i] - telemetry.received[i]), 0)
            for _ in range(len(entries) - unseen):
                entries.popleft()
            for tokens_in, length in entries:
                book(i, tokens_in, length, int(state.last_used[i]), self._shape, state)
