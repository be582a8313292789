"""When an instance gets no more requests, and when it is tried again: the rules, without a clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from rbx.config.gateway import BreakerConfig

BreakerState = Literal["closed", "open", "half-open"]
_GROWTH = 2.0


def _always() -> bool:
    return True


class Breaker:
    """The circuit breaker of one instance. Times are seconds of any clock that does not go back.

    It opens after ``failures`` in a row, or once it had work for ``no_progress_s`` and gave no token. Open
    it lets nothing pass until ``retry_at_s``; then it is half-open and one request probes it, whose outcome
    decides. A probe that gives no token for ``no_progress_s`` has failed. Each failed probe doubles the
    open time up to ``max_open_s``, and so does opening anew sooner after it closed than it had been open,
    so that an instance that works now and then does not get a burst of requests every ``open_s``.

    ``sent`` gives a ticket; a caller that hands it back keeps requests sent before the breaker opened from
    being taken for the probe. Without a ticket an outcome counts for whatever is under way.
    """

    def __init__(self, config: BreakerConfig) -> None:
        """Closed. ``config`` may be replaced at any time; it counts from the next event on."""
        self.config = config
        self.retry_at_s = -math.inf
        self._state: BreakerState = "closed"
        self._failures = 0
        self._open_s = 0.0  # how long it was opened last
        self._closed_at_s = -math.inf
        self._working_since_s: float | None = None
        self._progress_s = -math.inf
        self._ticket = 0
        self._oldest_ticket = 1  # earlier ones were sent before it opened
        self._probe: int | None = None
        self._probe_progress_s = -math.inf

    @property
    def state(self) -> BreakerState:
        """As of the last event; an open one turns half-open when ``allows`` or ``check`` sees the time."""
        return self._state

    def allows(self, now_s: float) -> bool:
        """Whether a request may be sent: closed, or half-open with no probe under way."""
        self._ripen(now_s)
        return self._state == "closed" or (self._state == "half-open" and self._probe is None)

    def sent(self, now_s: float) -> int:
        """A request goes out; its ticket. One sent although ``allows`` says no has no say later."""
        allowed = self.allows(now_s)
        if self._working_since_s is None:
            self._working_since_s = now_s
        if not allowed:
            return 0
        self._ticket += 1
        if self._state == "half-open":
            self._probe, self._probe_progress_s = self._ticket, now_s
        return self._ticket

    def progress(self, now_s: float, ticket: int | None = None) -> None:
        """A token came."""
        self._progress_s = now_s
        if self._probe is not None and ticket in (None, self._probe):
            self._probe_progress_s = now_s

    def succeeded(self, now_s: float, ticket: int | None = None) -> None:
        """A request ended well; a probe that does closes the breaker."""
        self._progress_s = now_s
        if self._stale(ticket):
            return
        if self._state == "closed":
            self._failures = 0
        elif self._probe is not None:
            self._state, self._probe, self._failures = "closed", None, 0
            self._closed_at_s = now_s
            self._working_since_s = now_s

    def failed(
        self,
        now_s: float,
        ticket: int | None = None,
        *,
        waited_since_s: float | None = None,
        may_open: Callable[[], bool] = _always,
    ) -> None:
        """A request failed in a way that counts. A closed breaker asks ``may_open`` before it opens.

        ``waited_since_s`` is when a request was sent that got no token in time. If another got one since,
        the instance is busy, not sick: it tells no more than an abandoned one.
        """
        if waited_since_s is not None and self._progress_s > waited_since_s:
            self.abandoned(now_s, ticket)
            return
        if self._stale(ticket):
            return
        if self._state == "closed":
            self._failures += 1
            if self._failures >= self.config.failures and may_open():
                self._open(now_s)
        elif self._probe is not None:
            self._open(now_s)

    def abandoned(self, now_s: float, ticket: int | None = None) -> None:
        """A request ended without telling anything of the instance: its client left, or it was refused
        for what it held. An abandoned probe makes room for the next one."""
        if self._probe is not None and ticket in (None, self._probe):
            self._probe = None

    def check(
        self,
        now_s: float,
        has_work: bool,
        counted_s: float = -math.inf,
        *,
        may_open: Callable[[], bool] = _always,
    ) -> bool:
        """Apply the rule of progress, and say whether it opened; call it every second or so.

        ``has_work`` tells that requests are under way whose progress would be seen: by their tokens, or, as
        a plain answer gives none before its end, by the instance's own counters, which last rose at
        ``counted_s``.
        """
        self._ripen(now_s)
        if not has_work:
            self._working_since_s = None
            self._probe = None  # it ended, and nobody told how
            return False
        if self._working_since_s is None:
            self._working_since_s = now_s
        if self._probe is not None:
            opens = now_s - max(self._probe_progress_s, counted_s) >= self.config.no_progress_s
        else:
            silent_s = now_s - max(self._working_since_s, self._progress_s, counted_s)
            opens = self._state == "closed" and silent_s >= self.config.no_progress_s and may_open()
        if opens:
            self._open(now_s)
        return opens

    def _ripen(self, now_s: float) -> None:
        if self._state == "open" and now_s >= self.retry_at_s:
            self._state = "half-open"

    def _stale(self, ticket: int | None) -> bool:
        if ticket is None:
            return False
        return ticket < self._oldest_ticket or (self._probe is not None and ticket != self._probe)

    def _open(self, now_s: float) -> None:
        again = self._state != "closed" or now_s - self._closed_at_s < self._open_s
        grown_s = self._open_s * _GROWTH if again else 0.0
        self._open_s = max(self.config.open_s, min(grown_s, self.config.max_open_s))
        self.retry_at_s = now_s + self._open_s
        self._state, self._probe, self._failures = "open", None, 0
        self._oldest_ticket = self._ticket + 1


class Breakers:
    """The breakers of a pool's instances, and the bound on how many of a model's are open at once.

    An instance that would open beyond ``max_open_share`` of its model's instances stays closed, unless
    the last word of every one of them was that it refuses connections: then none of them serves anybody.
    """

    def __init__(self, config: BreakerConfig, models: Sequence[str]) -> None:
        """``models`` names the model of each instance, in the pool's order."""
        self._models = tuple(models)
        self._each = [Breaker(config) for _ in models]
        self._refused = [False] * len(self._each)

    def __len__(self) -> int:
        """How many instances there are."""
        return len(self._each)

    def __getitem__(self, instance: int) -> Breaker:
        """The breaker of one instance, to look at."""
        return self._each[instance]

    def configure(self, config: BreakerConfig) -> None:
        """Replace the rules; what is open stays so until its time."""
        for breaker in self._each:
            breaker.config = config

    def allows(self, instance: int, now_s: float) -> bool:
        """Whether a request may be sent to ``instance``."""
        return self._each[instance].allows(now_s)

    def allowed(self, now_s: float) -> list[bool]:
        """``allows`` of every instance."""
        return [breaker.allows(now_s) for breaker in self._each]

    def retry_at_s(self, instances: Sequence[int]) -> float:
        """When the first of ``instances`` may be tried again, for a Retry-After; infinite without any.

        Where a probe is under way that time has passed.
        """
        return min((self._each[instance].retry_at_s for instance in instances), default=math.inf)

    def sent(self, instance: int, now_s: float) -> int:
        """A request goes out; its ticket."""
        return self._each[instance].sent(now_s)

    def progress(self, instance: int, now_s: float, ticket: int | None = None) -> None:
        """A token came."""
        self._refused[instance] = False
        self._each[instance].progress(now_s, ticket)

    def succeeded(self, instance: int, now_s: float, ticket: int | None = None) -> None:
        """A request ended well."""
        self._refused[instance] = False
        self._each[instance].succeeded(now_s, ticket)

    def failed(
        self,
        instance: int,
        now_s: float,
        ticket: int | None = None,
        *,
        refused: bool = False,
        waited_since_s: float | None = None,
    ) -> None:
        """A request failed in a way that counts; ``refused``: it got no connection; ``waited_since_s``: it
        was sent then and got no token in time."""
        self._refused[instance] = refused
        may_open = partial(self._may_open, instance)
        self._each[instance].failed(now_s, ticket, waited_since_s=waited_since_s, may_open=may_open)

    def abandoned(self, instance: int, now_s: float, ticket: int | None = None) -> None:
        """A request ended without telling anything of the instance."""
        self._each[instance].abandoned(now_s, ticket)

    def check(self, now_s: float, has_work: Sequence[bool], counted_s: Sequence[float]) -> list[int]:
        """Apply the rule of progress to all instances; returns those that it has opened now."""
        opened = []
        for instance, told in enumerate(zip(self._each, has_work, counted_s, strict=True)):
            breaker, works, rose_s = told
            if breaker.check(now_s, works, rose_s, may_open=partial(self._may_open, instance)):
                opened.append(instance)
        return opened

    def _may_open(self, instance: int) -> bool:
        share = self._each[instance].config.max_open_share
        if share >= 1.0:
            return True
        alike = [other for other, model in enumerate(self._models) if model == self._models[instance]]
        unusable = sum(self._each[other].state != "closed" for other in alike)
        # The added hair keeps 0.3 × 10 from being a little less than 3.
        return unusable + 1 <= math.floor(share * len(alike) + 1e-9) or all(
            self._refused[other] for other in alike
        )
