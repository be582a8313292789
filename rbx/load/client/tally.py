"""Where a run stands, for whoever watches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rbx.load.client.sketch import Sketch


@dataclass
class Tally:
    """Counts of all client processes so far; a few tenths of a second old.

    ``waiting`` requests are due and wait for a connection. ``ttft`` (from scheduled) and ``e2e`` (scheduled
    to last token) are of ok answers. ``in_flight_by_instance`` goes by ``x-rbx-instance``, so that it
    holds requests whose answer has begun; the rest of ``in_flight`` is not known yet.
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
