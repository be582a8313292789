"""One request on one instance: what the watch and the breaker are told, and that they are told of its end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rbx.serve.exchange import UpstreamFault
from rbx.serve.gateway.watching import Watching
from rbx.serve.upstream.breaker import Breakers


@dataclass
class Load:
    """Attempts under way; ``streams`` (by instance) are those that give tokens as they come."""

    in_flight: Counter[int] = field(default_factory=Counter)
    streams: Counter[int] = field(default_factory=Counter)


class Attempt:
    """From dispatch to end; ends once, however often it is told to."""

    def __init__(
        self,
        instance: int,
        name: str,
        now_s: float,
        watch: Watching,
        breakers: Breakers,
        load: Load,
        *,
        stream: bool,
    ) -> None:
        """The watch knows of the dispatch already; the breaker is told here."""
        self.instance = instance
        self._name = name
        self._watch = watch
        self._breakers = breakers
        self._load = load
        self._stream = stream
        self._open = True
        self.sent_s = now_s
        self._ticket = breakers.sent(instance, now_s)
        load.in_flight[instance] += 1
        load.streams[instance] += stream

    def tokens(self, total: int, now_s: float) -> None:
        """So many tokens have come in all."""
        self._watch.tokens(self.instance, self._name, now_s, total)
        self._breakers.progress(self.instance, now_s, self._ticket)

    def succeeded(self, now_s: float) -> None:
        """It ended well."""
        if self._end(now_s):
            self._breakers.succeeded(self.instance, now_s, self._ticket)

    def failed(self, fault: UpstreamFault, now_s: float) -> None:
        """The instance failed it, or refused it for what it held."""
        if not fault.counts:
            self.abandoned(now_s)
        elif self._end(now_s):
            refused = fault.kind == "refused"
            waited_since_s = self.sent_s if fault.kind == "first_token_timeout" else None
            self._breakers.failed(
                self.instance, now_s, self._ticket, refused=refused, waited_since_s=waited_since_s
            )

    def abandoned(self, now_s: float) -> None:
        """It ended without telling anything of the instance; after any other end this does nothing."""
        if self._end(now_s):
            self._breakers.abandoned(self.instance, now_s, self._ticket)

    def _end(self, now_s: float) -> bool:
        if not self._open:
            return False
        self._open = False
        self._load.in_flight[self.instance] -= 1
        self._load.streams[self.instance] -= self._stream
        self._watch.ended(self.instance, self._name, now_s)
        return True
