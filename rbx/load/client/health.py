"""How well the client itself kept its schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rbx.load.client.sketch import Sketch


@dataclass(frozen=True)
class ClientHealth:
    """What a run's numbers may be trusted for.

    ``asked_per_s`` and ``achieved_per_s`` are requests over the time from first to last, scheduled and
    sent, the first not counted; None where that is no time. Schedule delay is sent minus scheduled; a
    request that was due and never sent counts with the time it had waited. Loop lag is how late a client's
    event loop noticed a timer. ``cpu_s`` is CPU time of all processes from the common start, which
    ``started_unix_s`` tells.
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


def client_health(
    scheduled_s: Sequence[float], told: Sequence[Mapping[str, Any]], started_unix_s: float
) -> ClientHealth:
    """Health out of the whole schedule, sorted, and each worker's last words."""
    delays_s = sorted(delay_s for one in told for delay_s in one["delays_s"])
    lags = Sketch()
    for one in told:
        lags.merge(one["lags"])
    sent = sum(one["sent"] for one in told)
    first_s = min((one["first_sent_s"] for one in told if one["sent"]), default=0.0)
    last_s = max((one["last_sent_s"] for one in told if one["sent"]), default=0.0)
    span_s = scheduled_s[-1] - scheduled_s[0] if scheduled_s else 0.0
    return ClientHealth(
        asked_per_s=_rate(len(scheduled_s), span_s),
        achieved_per_s=_rate(sent, last_s - first_s),
        schedule_delay_p50_s=_rank(delays_s, 0.50),
        schedule_delay_p99_s=_rank(delays_s, 0.99),
        schedule_delay_max_s=delays_s[-1] if delays_s else None,
        loop_lag_p99_s=lags.quantile(0.99),
        loop_lag_max_s=lags.largest if lags.count else None,
        cpu_s=sum(one["cpu_s"] for one in told),
        processes=len(told),
        sent=sent,
        not_sent=len(scheduled_s) - sent,
        started_unix_s=started_unix_s,
    )


def _rate(count: int, span_s: float) -> float | None:
    return (count - 1) / span_s if count > 1 and span_s > 0.0 else None


def _rank(ordered: Sequence[float], share: float) -> float | None:
    """The value below which ``share`` of all lie, by nearest rank."""
    return ordered[max(1, math.ceil(share * len(ordered))) - 1] if ordered else None
