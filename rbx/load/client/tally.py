"""Where a run stands, for whoever watches it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rbx.load.client.exchange import Exchange
from rbx.load.client.result import LoadResult
from rbx.load.client.sketch import Sketch

INSTANCE = "x-rbx-instance"
EXHAUSTED = "x-rbx-budget-exhausted"


@dataclass
class Tally:
    """Counts of all client processes so far; a few tenths of a second old.

    ``waiting`` requests are due and wait for a connection. ``ttft`` (from scheduled) and ``e2e`` (scheduled
    to last token) are of ok answers. ``in_flight_by_instance`` goes by ``x-rbx-instance``, so that it
    holds requests whose answer has begun; the rest of ``in_flight`` is not known yet. ``budgets`` counts the
    ended that had one, by whether it ended them (``true``, ``false``), as a gateway of ours tells.
    """

    requests: int
    processes: int = 1
    elapsed_s: float = 0.0
    sent: int = 0
    in_flight: int = 0
    waiting: int = 0
    ended: Mapping[str, int] = field(default_factory=dict)
    faults: Mapping[str, int] = field(default_factory=dict)
    output_tokens: int = 0
    ttft: Sketch = field(default_factory=Sketch)
    e2e: Sketch = field(default_factory=Sketch)
    in_flight_by_instance: Mapping[str, int] = field(default_factory=dict)
    budgets: Mapping[str, int] = field(default_factory=dict)


class Counts:
    """What one process has seen."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.ended: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.budgets: Counter[str] = Counter()
        self.output_tokens = 0
        self.ttft, self.e2e = Sketch(), Sketch()

    def add(self, result: LoadResult) -> None:
        """Count a request that has ended."""
        self.ended[result.status] += 1
        if result.fault is not None:
            self.faults[result.fault] += 1
        if (exhausted := result.headers.get(EXHAUSTED)) in ("true", "false"):
            self.budgets[exhausted] += 1
        self.output_tokens += result.output_tokens or 0
        if result.status == "ok" and result.first_token_s is not None and result.last_token_s is not None:
            self.ttft.add(result.first_token_s - result.scheduled_s)
            self.e2e.add(result.last_token_s - result.scheduled_s)

    def told(self, sent: int, waiting: int, in_flight: Iterable[Exchange]) -> dict[str, Any]:
        """All of it as JSON, for ``tally``."""
        instances = [exchange.headers.get(INSTANCE) for exchange in in_flight]
        return {
            "sent": sent,
            "waiting": waiting,
            "in_flight": len(instances),
            "ended": self.ended,
            "faults": self.faults,
            "budgets": self.budgets,
            "output_tokens": self.output_tokens,
            "ttft": self.ttft.as_json(),
            "e2e": self.e2e.as_json(),
            "instances": Counter(name for name in instances if name is not None),
        }


def tally(requests: int, elapsed_s: float, told: Iterable[Mapping[str, Any]]) -> Tally:
    """The sum over what processes have told."""
    whole = Tally(requests, processes=0, elapsed_s=elapsed_s)
    ended: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    instances: Counter[str] = Counter()
    budgets: Counter[str] = Counter()
    for one in told:
        whole.processes += 1
        whole.sent += one["sent"]
        whole.waiting += one["waiting"]
        whole.in_flight += one["in_flight"]
        whole.output_tokens += one["output_tokens"]
        whole.ttft.merge(one["ttft"])
        whole.e2e.merge(one["e2e"])
        ended.update(one["ended"])
        faults.update(one["faults"])
        instances.update(one["instances"])
        budgets.update(one["budgets"])
    whole.ended, whole.faults, whole.budgets = ended, faults, budgets
    whole.in_flight_by_instance = instances
    return whole
