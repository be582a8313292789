"""Whether a server is still the same process: its start time and counters, which only grow while it lives."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

STARTED = "process_start_time_seconds"  # not shown by servers of several API processes
COUNTERS = (
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:request_success_total",
    "vllm:num_preemptions_total",
)
_LATER_S = 0.5  # start times that differ by less are one, rounded
_SAMPLE = re.compile(r"([a-z_:]+)(?:\{[^}]*\})?\s+(\d+\.?\d*(?:[eE][+-]?\d+)?)\s*", re.ASCII)


@dataclass(frozen=True)
class Lifetime:
    """Signs of one life: ``started_s`` by the server's own clock, None if untold, and counters by name.

    A counter is the sum over its labels.
    """

    started_s: float | None
    counted: Mapping[str, float]

    @classmethod
    def of(cls, text: str) -> Lifetime:
        """The signs on a page of ``/metrics``; what can't be read is left out."""
        started_s: float | None = None
        counted: dict[str, float] = {}
        for line in _beginning(text, (STARTED, *COUNTERS)):
            match = _SAMPLE.fullmatch(line)
            if match is None or not math.isfinite(value := float(match[2])):
                continue
            if match[1] == STARTED:
                started_s = value
            elif match[1] in COUNTERS:
                counted[match[1]] = counted.get(match[1], 0.0) + value
        return cls(started_s, counted)

    def stands_still(self, older: Lifetime | None) -> bool:
        """Whether it has counted nothing since ``older``."""
        return older is not None and bool(self.counted) and self.counted == older.counted

    def has_counted_since(self, older: Lifetime | None) -> bool:
        """Whether a counter that both show has risen; both are of one process."""
        return older is not None and any(
            value > older.counted.get(name, math.inf) for name, value in self.counted.items()
        )

    def ended_before(self, newer: Lifetime) -> bool:
        """Whether ``newer`` is of another process, started since."""
        started_s = math.inf if self.started_s is None else self.started_s
        if newer.started_s is not None and newer.started_s > started_s + _LATER_S:
            return True
        return any(newer.counted.get(name, value) < value for name, value in self.counted.items())

    def followed_by(self, newer: Lifetime) -> Lifetime:
        """The signs to compare the next page with: the newest counters, and the latest start told."""
        told = [life.started_s for life in (self, newer) if life.started_s is not None]
        return Lifetime(max(told, default=None), {**self.counted, **newer.counted})


def _beginning(text: str, names: Sequence[str]) -> Iterator[str]:
    """Lines that begin with one of ``names``; searched for, as a page has thousands of others."""
    for name in names:
        at = text.find(name)
        while at >= 0:
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            if at == 0 or text[at - 1] == "\n":
                yield text[at:end]
            at = text.find(name, end)
