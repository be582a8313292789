"""The published state of an instance as a source: its rows named and their predictions filled in."""

from __future__ import annotations

from typing import Protocol

from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.state import Ints
from rbx.errors import EngineError
from rbx.serve.state.engine_ids import Endpoint, row_id
from rbx.serve.state.published import with_predictions
from rbx.serve.state.source import StateReading


class IdentifiedState(Protocol):
    """A reader of published snapshots, such as ``PublishedState``."""

    ids: Ints  # of the rows of the snapshot read last

    def read(self, now_s: float) -> InstanceSnapshot:
        """The newest snapshot; raises ``EngineError`` if there is none to trust."""
        ...


class ExactState:
    """A ``StateSource`` over what the engine itself publishes.

    The engine knows its requests by ids of its own and has no predictions, so both are kept here from
    dispatch to end. Requests must be sent with their name as header ``X-Request-Id``.
    """

    def __init__(self, published: IdentifiedState, *endpoints: Endpoint) -> None:
        """``endpoints`` are where requests may be sent; the id inside the engine depends on it."""
        self._published, self._endpoints = published, endpoints
        self._names: dict[int, str] = {}
        self._predicted: dict[int, int] = {}

    def dispatched(self, request: str, predicted_tokens: int = 0) -> None:
        """A request was sent; predicted 0 stands for no prediction. Raises ``EngineError`` below 0."""
        if predicted_tokens < 0:
            raise EngineError(
                f"predicted_tokens of request {request!r} is {predicted_tokens}; give at least 0"
            )
        for row in self._rows(request):
            self._names[row] = request
            if predicted_tokens > 0:
                self._predicted[row] = predicted_tokens

    def ended(self, request: str) -> None:
        """A request has finished, failed or been cancelled; unknown names change nothing."""
        for row in self._rows(request):
            self._names.pop(row, None)
            self._predicted.pop(row, None)

    def newest(self, now_s: float) -> StateReading:
        """See ``StateSource.newest``; raises ``EngineError`` as the reader does."""
        snapshot = self._published.read(now_s)
        ids = self._published.ids
        names = tuple(self._names.get(row, "") for row in ids.tolist())
        return StateReading(with_predictions(snapshot, ids, self._predicted), now_s - snapshot.stamp_s, names)

    def _rows(self, request: str) -> list[int]:
        return [row_id(request, endpoint) for endpoint in self._endpoints]
