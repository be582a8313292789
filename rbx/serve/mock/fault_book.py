"""Which faults act on an instance now, and which on the next request."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from rbx.config.faults import (
    AnyFault,
    BadJson,
    Crash,
    Down,
    ErrorEvent,
    Freeze,
    Hang,
    NoDone,
    Refuse,
    RequestFault,
    Slow,
    Status,
    TelemetryFault,
    WrongUsage,
)


@dataclass(frozen=True)
class RequestFaults:
    """What goes wrong with one request; None for what goes right."""

    status: Status | None = None
    cut: Crash | Hang | ErrorEvent | None = None  # the one that comes first
    bad_json: BadJson | None = None
    usage: WrongUsage | None = None
    no_done: NoDone | None = None


@dataclass(frozen=True)
class Condition:
    """How an instance as a whole is."""

    down: bool = False
    refusing: bool = False
    rate: float = 1.0  # of its normal speed
    telemetry: TelemetryFault | None = None


class FaultBook:
    """The faults of one instance and whom they have hit; times in seconds of any clock."""

    def __init__(self, faults: tuple[AnyFault, ...], start_s: float, chance: random.Random) -> None:
        """In force from ``start_s`` on; ``chance`` decides which requests a share of them hits."""
        self.faults = faults
        self._start_s = start_s
        self._hits: Counter[int] = Counter()
        self._chance = chance

    def condition(self, now_s: float) -> Condition:
        """Of the instance now; several slow faults multiply."""
        acting = [fault for fault in self.faults if self._acts(fault, now_s)]
        rate = 0.0 if any(isinstance(fault, Freeze) for fault in acting) else 1.0
        for fault in acting:
            rate /= fault.factor if isinstance(fault, Slow) else 1.0
        down = any(isinstance(fault, Down) for fault in acting)
        refusing = down or any(isinstance(fault, Refuse) for fault in acting)
        telemetry = next((fault for fault in acting if isinstance(fault, TelemetryFault)), None)
        return Condition(down, refusing, rate, telemetry)

    def next_change_s(self, now_s: float) -> float | None:
        """When the condition may change next; None for never."""
        edges = [
            self._start_s + edge for f in self.faults for edge in (f.start_s, f.end_s) if edge is not None
        ]
        return min((edge for edge in edges if edge > now_s), default=None)

    def for_request(self, now_s: float) -> RequestFaults:
        """What will go wrong with a request that arrives now; faults limited in number count it."""
        hit: list[RequestFault] = []
        for k, fault in enumerate(self.faults):
            if not (isinstance(fault, RequestFault) and self._acts(fault, now_s)):
                continue
            if fault.requests is not None and self._hits[k] >= fault.requests:
                continue
            if any(type(fault) is type(other) for other in hit) or self._chance.random() >= fault.share:
                continue
            self._hits[k] += 1
            hit.append(fault)
        cuts = [fault for fault in hit if isinstance(fault, Crash | Hang | ErrorEvent)]
        return RequestFaults(
            status=next((fault for fault in hit if isinstance(fault, Status)), None),
            cut=min(cuts, key=lambda fault: fault.after_chunks, default=None),
            bad_json=next((fault for fault in hit if isinstance(fault, BadJson)), None),
            usage=next((fault for fault in hit if isinstance(fault, WrongUsage)), None),
            no_done=next((fault for fault in hit if isinstance(fault, NoDone)), None),
        )

    def _acts(self, fault: AnyFault | RequestFault, now_s: float) -> bool:
        since_s = now_s - self._start_s
        return since_s >= fault.start_s and (fault.end_s is None or since_s < fault.end_s)
