"""What can be wrong with the servers of a live cell."""

from __future__ import annotations

from typing import Literal

from rbx.errors import ServerError

FaultKind = Literal[
    "launch_failed",  # the sweep's own servers did not come up, or one of them ended
    "not_there",  # nothing at all listens at the address
    "not_ready",  # a server does not answer, or some instance can't be routed to
    "wrong_model",  # somebody else's model, pool or bundle is behind the address
    "config_refused",  # the gateway does not take the cell's policy
    "config_changed",  # somebody else changes the gateway's configuration
    "not_reset",  # a server that can't drop its prefix cache
    "not_drained",  # somebody else's requests run there
]


class TargetFault(ServerError):
    """Why a cell can't be run on its servers; ``kind`` is the word for it, kept with the cell."""

    def __init__(self, kind: FaultKind, message: str) -> None:
        """The message is whole: what, where, and what to do."""
        super().__init__(message)
        self.kind: FaultKind = kind
