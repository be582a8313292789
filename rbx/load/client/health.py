"""How well the client itself kept its schedule."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClientHealth:
    """What a run's numbers may be trusted for.

    ``asked_per_s`` and ``achieved_per_s`` are requests over the time from first to last, scheduled and
    sent; None where that is no time. Schedule delay is sent minus scheduled; a request that was due and
    never sent counts with the time it had waited. Loop lag is how late a client's event loop noticed a timer.
    ``cpu_s`` is CPU time of all processes from the common start, which ``started_unix_s`` tells.
    """

    asked_per_s: float | None
    achieved_per_s: float | None
    schedule_delay_p50_s: float | None
    schedule_delay_p99_s: float | None
    schedule_delay_max_s: float | None
    loop_lag_p99_s: float | None
    loop_lag_max_s: float | None
    cpu_s: float
    processes: int
    sent: int
    not_sent: int
    started_unix_s: float
