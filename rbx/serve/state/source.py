"""Whoever can tell what an instance is doing: a reader of exact snapshots, or the router's own shadow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import Protocol

from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.errors import EngineError


class StateFlag(IntFlag):
    """What a reader of a snapshot should know about where it comes from."""

    EXACT = 0  # the engine itself reported it
    GUESSED = 1  # order, prefill progress and batches in flight are a replay, not a report
    FOREIGN = 2  # rows of a stated typical size stand for requests that others have sent
    BLOCKS_CORRECTED = 4  # free blocks follow the KV gauge, not the blocks of the rows
    LEDGER_ONLY = 8  # no source could tell; everything sent and not finished counts as waiting


@dataclass(frozen=True)
class StateReading:
    """The newest snapshot of one instance and how old it is, in seconds of the reader's monotonic clock.

    ``age_s`` is ``now_s`` − ``snapshot.stamp_s``; it is negative if the two clocks disagree, which the
    caller must judge. ``request_ids`` names the rows of ``snapshot.requests`` as the router knows them,
    "" for requests that it did not send: with them a ledger drops what the snapshot shows.

    Raises ``EngineError`` if there is not one id for each row.
    """

    snapshot: InstanceSnapshot
    age_s: float
    request_ids: tuple[str, ...]
    flags: StateFlag = StateFlag.EXACT

    def __post_init__(self) -> None:
        """Refuse ids that do not fit the rows."""
        rows = len(self.snapshot.requests)
        if len(self.request_ids) != rows:
            raise EngineError(f"request_ids has {len(self.request_ids)} names for {rows} requests")


class StateSource(Protocol):
    """One instance, as somebody can see it."""

    def newest(self, now_s: float) -> StateReading | None:
        """The newest state known at ``now_s``; None if there has been none yet.

        Raises ``EngineError`` if what was found can't be a snapshot.
        """
        ...
