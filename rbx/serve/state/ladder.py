"""Several sources for one instance, the best first: a router must decide even if all of them fail."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.errors import EngineError
from rbx.heads.bea.unseen import NOTHING_UNSEEN, UnseenRequests
from rbx.serve.state.evidence import OwnRequest, own_request
from rbx.serve.state.published import MEANWHILE_S
from rbx.serve.state.source import StateFlag, StateReading, StateSource


class Fallback(Enum):
    """Why a source was passed over."""

    STALE = "stale"  # older than its largest age
    INVALID = "invalid"  # it raised EngineError
    CLOCK_JUMP = "clock jump"  # stamped in the future, or before the snapshot read last
    MISSING = "missing"  # it has had nothing yet


@dataclass(frozen=True)
class Rung:
    """One source, and the largest age of a snapshot that is still worth more than the next source's."""

    name: str
    source: StateSource
    max_age_s: float

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        if not (math.isfinite(self.max_age_s) and self.max_age_s > 0.0):
            raise EngineError(
                f"max_age_s of {self.name!r} is {self.max_age_s}; it must be finite and above 0"
            )


@dataclass(frozen=True)
class BestState:
    """A reading, the name of the rung that gave it, and what was sent and is not in it.

    Predict from ``now_s``: a snapshot may have been published after the caller looked at the clock.
    """

    reading: StateReading
    rung: str
    unseen: UnseenRequests
    now_s: float


@dataclass
class _Entry:
    dispatched_s: float
    row: list[int]


LEDGER = "ledger"


class StateLadder:
    """The best state of one instance that can be had, with the ledger of what was sent to it.

    Each question goes down the rungs to the first source whose snapshot is fresh and valid. Below the
    last rung stands the ledger alone: everything sent and not finished waits, in order of dispatch.
    """

    def __init__(self, profile: InstanceProfile, rungs: Sequence[Rung]) -> None:
        """``rungs`` from the best to the worst; raises ``EngineError`` if two have one name."""
        names = [rung.name for rung in rungs]
        doubled = sorted({name for name in names if names.count(name) > 1 or name == LEDGER})
        if doubled:
            raise EngineError(f"sources named {doubled}; give each a name of its own, other than {LEDGER!r}")
        self._profile, self._rungs = profile, tuple(rungs)
        self._entries: dict[str, _Entry] = {}
        self._not_shown: dict[str, dict[str, _Entry]] = {name: {} for name in names}
        self._fallbacks: Counter[tuple[str, Fallback]] = Counter()
        self._last_stamp_s: dict[str, float] = {}
        self._asked = 0

    @property
    def fallbacks(self) -> Mapping[tuple[str, Fallback], int]:
        """How often each source was passed over, by name and reason."""
        return dict(self._fallbacks)

    def dispatched(
        self,
        request: str,
        at_s: float,
        prompt_tokens: int,
        cap_tokens: int,
        predicted_tokens: int = 0,
        cached_prefix_tokens: int = 0,
    ) -> None:
        """Enter a request into the ledger, once; raises ``EngineError`` for sizes no engine would take."""
        sizes = prompt_tokens, cap_tokens, predicted_tokens, cached_prefix_tokens
        own: OwnRequest = own_request(request, *sizes, self._profile.limits.max_model_len)
        if not math.isfinite(at_s):
            raise EngineError(f"request {request!r} was dispatched at {at_s} s; give a finite time")
        if request not in self._entries:
            entry = self._entries[request] = _Entry(at_s, own.row())
            for not_shown in self._not_shown.values():
                not_shown[request] = entry

    def ended(self, request: str) -> None:
        """A request has finished, failed or been cancelled; unknown names change nothing."""
        if self._entries.pop(request, None) is not None:
            for not_shown in self._not_shown.values():
                not_shown.pop(request, None)

    def best(self, now_s: float) -> BestState:
        """The state to decide by at ``now_s``.

        A bad source never raises. ``EngineError`` means that ``now_s`` itself is no time.
        """
        for rung in self._rungs:
            reading = self._read(rung, now_s)
            if reading is not None:
                from_s = max(now_s, reading.snapshot.stamp_s)
                return BestState(reading, rung.name, self._unseen(rung.name, reading, from_s), from_s)
        return BestState(self._ledger_only(now_s), LEDGER, NOTHING_UNSEEN, now_s)

    def _read(self, rung: Rung, now_s: float) -> StateReading | None:
        """The rung's reading, or None with the reason counted."""
        try:
            reading = rung.source.newest(now_s)
        except EngineError:
            self._fallbacks[rung.name, Fallback.INVALID] += 1
            return None
        if reading is None:
            self._fallbacks[rung.name, Fallback.MISSING] += 1
            return None
        stamp_s = reading.snapshot.stamp_s
        back = stamp_s < self._last_stamp_s.get(rung.name, 0.0)
        self._last_stamp_s[rung.name] = stamp_s
        if back or not stamp_s <= now_s + MEANWHILE_S:
            self._fallbacks[rung.name, Fallback.CLOCK_JUMP] += 1
            return None
        if now_s - stamp_s > rung.max_age_s:
            self._fallbacks[rung.name, Fallback.STALE] += 1
            return None
        return reading

    def _unseen(self, rung: str, reading: StateReading, now_s: float) -> UnseenRequests:
        """Dispatches that this source has not shown so far, at the latest now."""
        not_shown = self._not_shown[rung]
        if not_shown:
            for request in reading.request_ids:
                not_shown.pop(request, None)
        if not not_shown:
            return NOTHING_UNSEEN
        entries = sorted(not_shown.values(), key=lambda entry: entry.dispatched_s)
        rows = np.array([entry.row for entry in entries], dtype=np.int64)
        columns = (rows[:, column] for column in (snap.PROMPT, snap.CAP, snap.PREDICTED, snap.CACHED))
        return UnseenRequests.of([min(entry.dispatched_s, now_s) for entry in entries], *columns)

    def _ledger_only(self, now_s: float) -> StateReading:
        self._asked += 1
        rows = np.array([entry.row for entry in self._entries.values()], dtype=np.int64)
        snapshot = InstanceSnapshot(
            self._asked,
            now_s,
            self._profile,
            self._profile.limits.kv_blocks,
            0,
            rows.reshape(-1, snap.N_REQUEST),
            np.zeros(0),
            np.zeros((0, snap.N_STEP), dtype=np.int64),
        )
        return StateReading(snapshot, 0.0, tuple(self._entries), StateFlag.LEDGER_ONLY)
