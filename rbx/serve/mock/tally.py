"""What an instance has counted since it started."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from rbx.serve.mock.ticket import Ticket

# Bounds of vLLM 0.32's histograms, seconds.
TTFT_BOUNDS_S = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
E2E_BOUNDS_S = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
)  # fmt: skip


class Histogram:
    """Counts by upper bound, as Prometheus keeps them."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """``bounds`` ascending, without infinity."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def note(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Lag:
    """How late tokens were, in real seconds: the worst of the last period or two of ``PERIOD_S``."""

    PERIOD_S = 10.0

    def __init__(self) -> None:
        """Nothing was late yet."""
        self._since_s = 0.0
        self._present_s = self._past_s = 0.0

    def note(self, lag_s: float, now_s: float) -> None:
        """A step was handed out so late."""
        self._turn(now_s)
        self._present_s = max(self._present_s, lag_s)

    def worst_s(self, now_s: float) -> float:
        """The largest delay of late."""
        self._turn(now_s)
        return max(self._present_s, self._past_s)

    def _turn(self, now_s: float) -> None:
        periods = (now_s - self._since_s) / self.PERIOD_S
        if periods >= 1.0:
            self._past_s = self._present_s if periods < 2.0 else 0.0
            self._present_s, self._since_s = 0.0, now_s


class Tally:
    """Cumulative counts behind ``/metrics``; times are the event loop's."""

    def __init__(self) -> None:
        """All zero."""
        self.prompt_tokens = self.generation_tokens = self.preemptions = 0
        self.finished: Counter[str] = Counter()
        self.ttft_s, self.e2e_s = Histogram(TTFT_BOUNDS_S), Histogram(E2E_BOUNDS_S)
        self.lag = Lag()

    def delivered(self, ticket: Ticket, tokens: int, now_s: float) -> None:
        """``ticket`` is about to have ``tokens``."""
        if ticket.tokens == 0:
            self.prompt_tokens += ticket.prompt_tokens
            self.ttft_s.note(now_s - ticket.at_s)
        self.generation_tokens += tokens - ticket.tokens

    def ended(self, ticket: Ticket, reason: str, preemptions: int, now_s: float) -> None:
        """``ticket`` ended for ``reason``: stop, length or abort."""
        self.finished[reason] += 1
        self.preemptions += preemptions
        if reason != "abort":
            self.e2e_s.note(now_s - ticket.at_s)
