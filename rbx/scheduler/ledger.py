"""Dispatched requests that telemetry does not show yet.

A snapshot is older than the newest dispatches: they are on the wire, or the scrape came before
them. Without the ledger two quick batches book the same free slot twice (herding).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbx.engine import snapshot_columns as snap
from rbx.engine.telemetry import PoolTelemetry
from rbx.heads.bea.unseen import NOTHING_UNSEEN, UnseenRequests, waiting_row
from rbx.policy.base import Assignment
from rbx.policy.candidates import book
from rbx.policy.pool_state import PoolShape, PoolState

Ints = NDArray[np.int64]


class _Entry(NamedTuple):
    enters_s: float
    input_tokens: int
    max_tokens: int
    length_tokens: float


class Ledger:
    """Per instance, the dispatches in order; a snapshot that has received n of them shows the first n."""

    def __init__(self, shape: PoolShape) -> None:
        """An empty ledger for the instances of ``shape``."""
        self._shape = shape
        self._unseen: list[deque[_Entry]] = [deque() for _ in range(shape.n_instances)]
        self._dispatched = np.zeros(shape.n_instances, dtype=np.int64)

    def add(self, assignment: Assignment, input_tokens: Ints, enters_s: float) -> None:
        """Note dispatches that reach their instance at ``enters_s``; the unplaced ones are skipped."""
        columns = (assignment.instance, input_tokens, assignment.max_tokens, assignment.length_tokens)
        for i, tokens_in, cap, length in zip(*(column.tolist() for column in columns), strict=True):
            if i >= 0:
                self._unseen[i].append(_Entry(enters_s, tokens_in, cap, length))
                self._dispatched[i] += 1

    def apply(self, telemetry: PoolTelemetry, state: PoolState) -> None:
        """Drop what the snapshot shows and book the rest into ``state``, keeping its last uses."""
        for i, entries in enumerate(self._unseen):
            if not entries:
                continue
            unseen = max(int(self._dispatched[i] - telemetry.received[i]), 0)
            for _ in range(len(entries) - unseen):
                entries.popleft()
            for entry in entries:
                book(i, entry.input_tokens, entry.length_tokens, int(state.last_used[i]), self._shape, state)

    def book_told(self, unseen: Sequence[UnseenRequests], state: PoolState) -> None:
        """Book what a driver says is unseen, instance by instance, instead of what is noted here."""
        for i, requests in enumerate(unseen):
            for row in requests.requests.tolist():
                book(i, row[snap.PROMPT], row[snap.PREDICTED], int(state.last_used[i]), self._shape, state)

    def unseen(self) -> tuple[UnseenRequests, ...]:
        """What the snapshot last applied does not show, instance by instance."""
        return tuple(_requests(entries) if entries else NOTHING_UNSEEN for entries in self._unseen)


def _requests(entries: deque[_Entry]) -> UnseenRequests:
    rows = [waiting_row(entry.input_tokens, entry.max_tokens, entry.length_tokens) for entry in entries]
    return UnseenRequests(np.array([entry.enters_s for entry in entries]), np.array(rows))
